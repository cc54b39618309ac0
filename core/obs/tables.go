package obs

import "github.com/prometheus/client_golang/prometheus"

// Gauge shows what value gives at the time of asking. labels are constant name/value pairs.
func (m *Metrics) Gauge(name, help string, labels map[string]string, value func() float64) {
	m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
}

// Counter shows what value gives at the time of asking, for counts that are kept elsewhere.
func (m *Metrics) Counter(name, help string, labels map[string]string, value func() float64) {
	m.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
		value))
}

// Column is one metric of a Table.
type Column struct {
	Name, Help string
	Counter    bool // it only grows
}

// Table shows metrics whose labels come and go, such as those of plugins: what read emits at the time of asking, a
// value for each column. It is asked once, so the values of one row belong together. read must not block.
func (m *Metrics) Table(labels []string, columns []Column, read func(emit func(labels []string, values ...float64))) {
	t := &table{read: read}
	for _, c := range columns {
		t.descs = append(t.descs, prometheus.NewDesc(c.Name, c.Help, labels, nil))
		kind := prometheus.GaugeValue
		if c.Counter {
			kind = prometheus.CounterValue
		}
		t.kinds = append(t.kinds, kind)
	}
	m.reg.MustRegister(t)
}

type table struct {
	descs []*prometheus.Desc
	kinds []prometheus.ValueType
	read  func(emit func(labels []string, values ...float64))
}

// Describe implements prometheus.Collector.
func (t *table) Describe(to chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (t *table) Collect(to chan<- prometheus.Metric) {
	t.read(func(labels []string, values ...float64) {
		for i, v := range values {
			to <- prometheus.MustNewConstMetric(t.descs[i], t.kinds[i], v, labels...)
		}
	})
}

// Histogram is a histogram that is kept elsewhere. Counts[i] are the values up to Bounds[i] and above the bound before
// it; the last of Counts, which is one longer, are those above all bounds.
type Histogram struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// Histograms shows histograms that are kept elsewhere, as read gives them at the time of asking, one for each column.
// It is asked once, so what it gives belongs together. read must not block.
func (m *Metrics) Histograms(columns []Column, read func() []Histogram) {
	t := &histograms{read: read}
	for _, c := range columns {
		t.descs = append(t.descs, prometheus.NewDesc(c.Name, c.Help, nil, nil))
	}
	m.reg.MustRegister(t)
}

type histograms struct {
	descs []*prometheus.Desc
	read  func() []Histogram
}

// Describe implements prometheus.Collector.
func (t *histograms) Describe(to chan<- *prometheus.Desc) {
	for _, d := range t.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (t *histograms) Collect(to chan<- prometheus.Metric) {
	for i, h := range t.read() {
		below, n := map[float64]uint64{}, uint64(0)
		for at, bound := range h.Bounds {
			n += h.Counts[at]
			below[bound] = n
		}
		n += h.Counts[len(h.Bounds)]
		to <- prometheus.MustNewConstHistogram(t.descs[i], n, h.Sum, below)
	}
}
