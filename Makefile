# make demo   the main job on five masters, in under 40 s
# make test   all tests, with real redis-server processes
# make chaos  every scenario with faults on 3 and on 5 masters, and the controls; writes docs/chaos.md (9 minutes)
# make soak   the same claims, for hours
# make bench  the library beside redsync, and against its budgets; writes docs/bench.md (under 3 minutes)
# make lint   what .ci/run checks besides

GO ?= go

# The race detector needs a C compiler.
RACE := $(if $(shell command -v $${CC:-cc} 2>/dev/null || command -v gcc 2>/dev/null),-race)
TEST ?= $(GO) test $(RACE) -shuffle=on
# integration/ and bench/ are modules of their own, so that what they require stays away from users.
MODULES := . integration bench
PACKAGES ?= $(shell $(GO) list ./... | grep -v /quorum/model)
INTEGRATION ?= $(shell cd integration && $(GO) list ./... | grep -v -e /sim -e /chaos)
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Those of the scenarios with faults that every change has to pass; make chaos plays all of them.
SCENARIOS ?= minority_killed|majority|rolling|restart_amnesia|partition_of_the_holder|frozen|client_paused|random_walk

.PHONY: demo test chaos soak bench lint redis-server

demo:
	$(GO) run ./cmd/quorumlock demo

# One package after the other, since many of them measure time. The model has one goroutine, so no use for the race detector; the
# simulation plays its seeds without it, and some of them with it.
test: redis-server
	@$(if $(RACE),:,echo "no C compiler: testing without the race detector")
	$(GO) test -shuffle=on ./quorum/model
	cd integration && $(GO) test -shuffle=on ./sim
	$(TEST) -p 1 $(PACKAGES)
	cd integration && $(TEST) -p 1 $(INTEGRATION)
	$(if $(RACE),cd integration && $(TEST) -run TestSeeds ./sim -sim.seeds=40)
	cd integration && $(TEST) -run 'TestChaos/($(SCENARIOS))' ./chaos
	cd bench && $(TEST) -p 1 ./...

# Masters in containers where there is an engine, else processes; which, the report says.
chaos: redis-server
	cd integration && $(GO) test $(RACE) -timeout 60m -v ./chaos -chaos.full -chaos.report=$(CURDIR)/docs/chaos.md -chaos.revision="$$(git describe --always --dirty)"

# What takes too long for every change: a deeper search of the model (12 minutes), many seeds of the simulation,
# five minutes of faults at random, fuzzing.
soak: redis-server
	$(GO) test -timeout 90m -v -run TestProtocol ./quorum/model -model.deep
	cd integration && $(GO) test -timeout 90m ./sim -sim.seeds=20000
	cd integration && $(GO) test $(RACE) -timeout 60m -v ./chaos -run 'TestChaos/random walk' -chaos.full -chaos.walk=5m
	$(GO) test -run '^$$' -fuzz FuzzParse -fuzztime 5m ./scripts
	$(GO) test -run '^$$' -fuzz FuzzNames -fuzztime 2m ./scripts
	$(GO) test -run '^$$' -fuzz FuzzReplies -fuzztime 5m ./node
	$(GO) test -run '^$$' -fuzz FuzzURL -fuzztime 2m ./node
	$(GO) test -run '^$$' -fuzz FuzzMessages -fuzztime 2m ./internal/pubsub

# No budget fails this: a machine that others use at the same time would. The report says which are met.
bench: redis-server
	cd bench && $(GO) run . -o ../docs/bench.md -revision "$$(git describe --always --dirty)"

# Real servers are wanted, not needed: the tests that must have them say so when they are skipped.
redis-server:
	@sh internal/redistest/install-redis.sh

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt differs:"; gofmt -l .; exit 1; }
	@set -e; for module in $(MODULES); do (cd $$module; set -x; $(GO) vet ./...; $(STATICCHECK) ./...); done
