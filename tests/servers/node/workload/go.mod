module stepgate.dev/tests/servers/node/workload

go 1.26.0
