# make demo   the main job on five masters, in under 40 s
# make test   all tests, with real redis-server processes
# make soak   the same claims, for hours
# make lint   what .ci/run checks besides

GO ?= go

# The race detector needs a C compiler.
RACE := $(if $(shell command -v $${CC:-cc} 2>/dev/null || command -v gcc 2>/dev/null),-race)
TEST ?= $(GO) test $(RACE) -shuffle=on
PACKAGES ?= $(shell $(GO) list ./... | grep -v /quorum/model)

.PHONY: demo test soak lint redis-server

demo:
	$(GO) run ./cmd/quorumlock demo

# One package after the other, since many of them measure time; the model has one goroutine, so no use for the race detector.
test: redis-server
	@$(if $(RACE),:,echo "no C compiler: testing without the race detector")
	$(GO) test -shuffle=on ./quorum/model
	$(TEST) -p 1 $(PACKAGES)

# What takes too long for every change: a deeper search of the model (12 minutes), many seeds of the simulation, fuzzing.
soak: redis-server
	$(GO) test -timeout 90m -v -run TestProtocol ./quorum/model -model.deep
	$(GO) test -timeout 90m ./integration/sim -sim.seeds=20000
	$(GO) test -run '^$$' -fuzz FuzzParse -fuzztime 5m ./scripts
	$(GO) test -run '^$$' -fuzz FuzzNames -fuzztime 2m ./scripts
	$(GO) test -run '^$$' -fuzz FuzzReplies -fuzztime 5m ./node
	$(GO) test -run '^$$' -fuzz FuzzURL -fuzztime 2m ./node

# Real servers are wanted, not needed: the tests that must have them say so when they are skipped.
redis-server:
	@sh integration/install-redis.sh

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt differs:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
