// Command collector is an OpenTelemetry collector with its own OTLP receiver and an exporter that appends each request as one
// line of OTLP's JSON to a file before it is answered. The test of the otlp plugin starts it; it has a module of its own, so
// that nothing of it is in ours. Arguments: the HTTP and the gRPC address to listen on, and the file.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

const settings = `yaml:
receivers: {otlp: {protocols: {http: {endpoint: %q}, grpc: {endpoint: %q}}}}
exporters: {lines: {}}
service:
  telemetry: {metrics: {level: none}, logs: {level: warn}}
  pipelines: {logs: {receivers: [otlp], exporters: [lines]}}
`

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: collector HTTP-ADDRESS GRPC-ADDRESS FILE")
	}
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Version: "test"},
		Factories: func() (otelcol.Factories, error) { return factories(os.Args[3]) },
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{fmt.Sprintf(settings, os.Args[1], os.Args[2])},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := col.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func factories(path string) (otelcol.Factories, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return otelcol.Factories{}, err
	}
	out := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	if out.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return out, err
	}
	out.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](lines(f))
	return out, err
}

// lines has no queue and no retries: what was answered is in the file.
func lines(f *os.File) exporter.Factory {
	create := func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
		return exporterhelper.NewLogs(ctx, set, cfg, func(_ context.Context, ld plog.Logs) error {
			line, err := (&plog.JSONMarshaler{}).MarshalLogs(ld)
			if err != nil {
				return consumererror.NewPermanent(err)
			}
			_, err = f.Write(append(line, '\n'))
			return err
		})
	}
	none := func() component.Config { return &struct{}{} }
	return exporter.NewFactory(component.MustNewType("lines"), none, exporter.WithLogs(create, component.StabilityLevelDevelopment))
}
