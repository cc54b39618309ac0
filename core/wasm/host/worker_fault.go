package host

import "errors"

// ErrWorker is a call that a worker process did not answer: it ended, it is down, or what it said was no answer.
var ErrWorker = errors.New("the worker process gave no answer")

// workerCode is the name of ErrWorker between a worker and us; the others have theirs from FaultCode.
const workerCode = "worker"

// faultName is the name of a fault; that of one which has none is ErrWorker's.
func faultName(fault error) string {
	if code := FaultCode(fault); code != "" {
		return code
	}
	return workerCode
}

// faultNamed is the fault of that name, nil if there is none.
func faultNamed(name string) error {
	if name == workerCode {
		return ErrWorker
	}
	return FaultOf(name)
}
