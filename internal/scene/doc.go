// Package scene plays scenes: texts of what processes do with locks, of what goes wrong, and of what their users see. A scene runs
// on a world in memory (internal/world), in which only waiting takes time.
//
//	masters 3
//	process A B
//	lock A x
//	wait B x wait=5s
//	crash 0
//	pass 10s
//	----
//	A x: token 1
//	B x: lock "x": not acquired: held by A, 25.6s left: gave up after 5s (0 granted of 2 needed, 2 refused, 1 unknown) [not acquired, held], after 5s
//
// A command has the process first, then names, then options. Its result is what has happened until all masters have done what
// they were asked, also to calls that wait. A call that has nothing to say and takes no time has none: an unlock, say. Errors
// stand there with their texts, and then with the sentinels that they wrap. Tokens are numbered as they are seen, and owners by
// their processes: A:2 is the second attempt of A.
//
//	masters 3 [rate=1.01]    begins another scene
//	process A lease=3s       makes lockers (rule=all: of all masters), with options (settings in line.go); hooks (hooks=all), log: what they say (log=all: and their nodes)
//	lock A x y               also trylock, rlock, tryrlock (readers), acquire, tryacquire (sem=s/3 k=2)
//	wait A x                 lock, rlock (read) or acquire (sem=s/3) that may wait; its result comes when it has one
//	cancel A x               ends the context of that call
//	unlock A x               also extend (for=3s), downgrade, handover; then takeover B
//	held A x                 what the handle says
//	do A x for=1s fails      work under a lock
//	campaign A e             leads in the election e, or waits to (background); resign, term, isleader; leader, observe: who leads
//	run A e takes=1s fails   work while it leads, which ends so long after its context, or for=5s after it began; see leads.go
//	force A x                also forceowner (owner=A:1), ready A, close A, stats A, check A x, inspect A x, subscribed x
//	pass 10s                 lets time pass
//	stall 2, cut A 2 10s     any fault of world.Kinds, of a master or of all, until its time is over or heal ends them all
//	slow 2 10ms              a master, or all, replies so late, or to one script (script=release), until slow 2 0s; no crash meanwhile, and
//	                         no second call to a master that still waits: the scene would hang
//	keys                     the masters' keys, without the library's bookkeeping; with it: keys all
//	marker 0 1 members=(0,1) gives masters a list, also next=(0,1,2), max=1h; lists says what they have; process A of=(0,1) has it
//	redis 1 DEL x            a command on a master, or on all; subscribe x makes a client that only subscribes
//	ran                      the scripts that the masters have run since the last ran
//
// A lock is named by its process and names; as=NAME names it otherwise, in=NAME calls in its context. A call takes deadline=1s
// and ended for its own context, and any option of a process, as by Locker.With; detached calls go on when the context of in= ends.
//
// To add a command, add a row to commands in scene.go; an option, to settings. A fault that world.Kinds gets needs nothing here.
//
// A scene stays a test in Go if it needs goroutines that run between two commands, code that runs within one, or what no user
// sees. Two events of one process at one instant have no order: let time pass between them (pass 1ms). Results are golden: go
// test -rewrite writes them, and a commit that changes one says why.
package scene
