# make demo   the main job on five masters, in under 40 s
# make test   all tests, with real redis-server processes (5 minutes); REDIS_SERVER=PATH tests on another server
# make chaos  every scenario with faults on 3 and on 5 masters, and the controls; writes docs/chaos.md (15 minutes)
# make soak   the same claims, for hours
# make bench  the library beside other locks, and against its budgets; writes docs/bench.md, its pictures, and the figures of
#             docs/scale.md (under 6 minutes)
# make bench-check  the budgets alone; fails where one is missed by more than a third (under 4 minutes)
# make lint   the linters; .ci/run runs them and make test

GO ?= go

# The race detector needs a C compiler.
RACE := $(if $(shell command -v $${CC:-cc} 2>/dev/null || command -v gcc 2>/dev/null),-race)
TEST ?= $(GO) test $(RACE) -shuffle=on
# These directories are modules of their own: their requirements stay out of users' module graphs.
MODULES := . integration bench gocronquorumlock otelquorumlock promquorumlock
# The searches need no race detector: they have one goroutine, or fake time. The simulation plays some seeds with it all the same.
SEARCHES := ./quorum/model/... ./quorum/internal/waiting
PACKAGES ?= $(shell $(GO) list ./... | grep -v -e /quorum/model -e /quorum/internal/waiting)
INTEGRATION ?= $(shell cd integration && $(GO) list ./... | grep -v -e /sim -e /chaos -e /containers)
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Every change has to pass these scenarios with faults; make chaos plays all of them.
SCENARIOS ?= minority_killed|majority|rolling|restart_amnesia|partition_of_the_holder|frozen|client_paused|random_walk|a_live_master

# GNU make 4 prints the output of each command in one piece.
PIECES := $(if $(filter output-sync,$(.FEATURES)),--output-sync=line)

.PHONY: demo test chaos soak bench bench-check lint redis-server postgres prometheus
.PHONY: test-searches test-packages

demo:
	$(GO) run ./cmd/quorumlock demo

test: redis-server postgres prometheus
	@$(if $(RACE),:,echo "no C compiler: testing without the race detector")
	@$(MAKE) --no-print-directory --jobs=2 $(PIECES) test-searches test-packages

# These keep a processor busy, and measure no time: they run beside all else, at the lowest priority. Other work may starve them for
# long, hence the timeout.
test-searches:
	nice -n 19 $(GO) test -timeout 60m -shuffle=on $(SEARCHES)
	cd integration && nice -n 19 $(GO) test -timeout 60m -shuffle=on ./sim
	$(if $(RACE),cd integration && nice -n 19 $(TEST) -timeout 60m -run TestSeeds ./sim -sim.seeds=40)
	cd bench && nice -n 19 $(TEST) -timeout 60m -p 1 ./...

# Few at a time, since many of them measure time. Parallel tests wait most of the time; those of integration/ less.
test-packages:
	$(TEST) -p 2 -parallel 8 $(PACKAGES)
	cd integration && $(TEST) -p 1 -parallel 4 $(INTEGRATION)
	cd integration && $(TEST) ./containers
	cd gocronquorumlock && $(TEST) ./...
	cd otelquorumlock && $(TEST) ./...
	cd promquorumlock && $(TEST) ./...
	cd integration && $(TEST) -run 'TestChaos/($(SCENARIOS))' ./chaos

# Masters are containers where there is a container engine, else processes. The report says which.
chaos: redis-server
	cd integration && $(GO) test $(RACE) -timeout 60m -v ./chaos -chaos.full -chaos.report=$(CURDIR)/docs/chaos.md -chaos.revision="$$(git describe --always --dirty)"

# These take too long for every change: a deeper search of the model (12 minutes), many seeds of the simulation,
# five minutes of random faults, fuzzing.
soak: redis-server
	$(GO) test -timeout 90m -v -run TestProtocol ./quorum/model/... -model.deep
	cd integration && $(GO) test -timeout 90m ./sim -sim.seeds=20000
	cd integration && $(GO) test $(RACE) -timeout 60m -v ./chaos -run 'TestChaos/random walk' -chaos.full -chaos.walk=5m
	$(GO) test -run '^$$' -fuzz FuzzParse -fuzztime 5m ./scripts
	$(GO) test -run '^$$' -fuzz FuzzNames -fuzztime 2m ./scripts
	$(GO) test -run '^$$' -fuzz FuzzReplies -fuzztime 5m ./node
	$(GO) test -run '^$$' -fuzz FuzzURL -fuzztime 2m ./node
	$(GO) test -run '^$$' -fuzz FuzzMessages -fuzztime 2m ./internal/pubsub

# A missed budget fails nothing, because other work on the machine may cause it. The report says which budgets are met.
bench: redis-server
	cd bench && $(GO) run . -docs ../docs -revision "$$(git describe --always --dirty)"

bench-check: redis-server
	cd bench && $(GO) run . -check

# Without one of these, the tests that need it are skipped, and say so: without postgres those of package fence, without
# prometheus those of the alerts and the dashboard.
redis-server postgres prometheus:
	@sh internal/redistest/install.sh $@

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt differs:"; gofmt -l .; exit 1; }
	@set -e; for module in $(MODULES); do (cd $$module; set -x; $(GO) vet ./...; $(STATICCHECK) ./...); done
