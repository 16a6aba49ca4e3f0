/*
 * The lock of a majority, after docs/safety.md and section 4 of docs/design.md: 3 masters, 2 clients, and what goes wrong.
 * "sh spec/run.sh" has Spin search it. WITHOUT leaves out one rule, and then there must be a trace to what stands right of
 * it; "sh spec/run.sh RULE" prints that.
 *
 * Time passes by ticks, at any moment. A message that is lost stays on its way. Not played: requests that arrive twice,
 * several names, lists of masters. Tombstones do not end. A quarantine begins at once, which is the worst moment.
 */
#define DRIFT       1 /* 4.3  validity allows for the drift of clocks               two holders */
#define SENT        2 /* 4.3  validity counts from the request, not from the reply  two holders */
#define QUARANTINE  3 /* 4.5  a master that forgot grants nothing for a lease       two holders */
#define NOREPAIR    4 /* 4.6  a master in quarantine takes no repair                two holders */
#define OWNER       5 /* 4.1  every attempt has a fresh owner                       two holders */
#define TOMBSTONE   6 /* 4.1  a release leaves a tombstone                          a key that nobody will release */
#define WRITEBACK   7 /* 4.4  the token stands on a quorum                          a token that is not greater */
#define SEED        8 /* 4.4  a counter that was lost restarts above its past       a token that is not greater */
#define SEAL        9 /* 4.5  a reply counts once the replica has acknowledged it   two holders */
#define SEALID     10 /* 4.5  the seal compares the replication id                  two holders */
#define RUNID      11 /* 4.5  the marker's run has the replication id               two holders */
#define STAMP      12 /* fencing.md: a holder stamps before it reads                a late write that is accepted */
#ifndef WITHOUT
#define WITHOUT   0
#define CLAIM     0   /* the claim of docs/safety.md that is checked; 0: all */
#define ATTEMPTS  2   /* at most two at a time; the third is of a client whose first has ended */
#define LEASE     2   /* in ticks, by the clocks of servers 1 and 3; those of 0 and 2 are a tick ahead by then: the drift */
#define RESTARTS  1   /* of a server, which forgets all */
#define RENEWALS  0   /* of all holders together, each with its repairs */
#define SERVERS   3   /* 4: master 0 has a replica, server 3 */
#define FAILOVERS 0   /* promotions */
#define CLOCK     1   /* 0: the clients' clocks are behind, so seeds are too low */
#define RESOURCE  0   /* 1: holders use a resource that compares tokens */
#define LATE      1   /* 0: what is on its way when an attempt ends is lost, and so are its releases */
#endif
#define N      3
#define QUORUM 2
#define claim(n, that) assert(CLAIM != 0 && CLAIM != n || (that))
#define max(x, y)      ((x) > (y) -> (x) : (y))
#define down(n)        n = max(n, 1) - 1
#define at(a, n)       ((a) * N + (n))
#define count(a, is)   ((is(at(a, 0))) + (is(at(a, 1))) + (is(at(a, 2))))
#define each(what, v)  what[at(a, 0)] = v; what[at(a, 1)] = v; what[at(a, 2)] = v
#define add(n, what)   ask[at(a, n)] = ask[at(a, n)] | what
#define owner(a)       (a + 1)
#define m              (x % N) /* server x is of master m */

/* What an attempt knows: of itself, and of each master. */
#define IDLE   0
#define ASKING 1
#define HELD   2
#define ENDED  3
byte st[ATTEMPTS], seed[ATTEMPTS], token[ATTEMPTS];
byte sent[ATTEMPTS];      /* for how many ticks a success of its last requests is valid */
byte left[ATTEMPTS * N];  /* for how many ticks it believes in this master */
byte has[ATTEMPTS * N];   /* the counter that a grant returned, for those of R; W are those at which it is the token */
#define VALID       (LEASE - (WITHOUT != DRIFT))
#define believed(i) left[i] > 0
#define holds(a)    (st[a] == HELD && count(a, believed) >= QUORUM)
#define inR(i)      has[i] > 0
#define inW(i)      has[i] == (WITHOUT == WRITEBACK && has[i] > 0 -> has[i] : token[a])

/* What is on its way: requests, and the counter that a success returns. A refusal says no more than silence. */
#define ACQUIRE 1
#define RAISE   2         /* the write-back */
#define RENEW   4
#define RELEASE 8
byte ask[ATTEMPTS * N], reply[ATTEMPTS * N];
byte unsealed[ATTEMPTS], by[ATTEMPTS]; /* master 0's reply that is held back, and its server + 1 */

/* What a server knows. */
byte key[SERVERS], ttl[SERVERS], counter[SERVERS], quarantine[SERVERS], tombs[SERVERS], replica[SERVERS];
#define R          (SERVERS - 1)
#define tomb(a, x) (tombs[x] >> a & 1)
#define free       (key[x] == 0 && (WITHOUT == TOMBSTONE || !tomb(a, x)))

byte restarts = RESTARTS, renewals = RENEWALS, failovers = FAILOVERS, b;
byte top, high;           /* the greatest token so far; the greatest counter, which a true clock is ahead of */
byte use[ATTEMPTS];       /* 1: may use the resource, 2: has read, 3: has written; before each it may be paused */
byte stamp, seen;         /* the resource's token; the greatest that has read */

inline undo(n) {
	if
	:: ask[at(a, n)] != 0 || key[n] == owner(a) || n == 0 && key[R] == owner(a) -> add(n, RELEASE)
	:: else
	fi
}
inline end() {
	each(left, 0); each(has, 0); each(reply, 0); unsealed[a] = 0; by[a] = 0; sent[a] = 0; st[a] = ENDED;
	if :: LATE -> undo(0); undo(1); undo(2) :: else -> each(ask, 0) fi; printf("attempt %d ends\n", a)
}
inline renamed(x) { /* a new replication id: what server x holds back is never sealed */
	for (a : 0 .. ATTEMPTS - 1) { if :: by[a] == x + 1 && WITHOUT != SEALID -> unsealed[a] = 0; by[a] = 0 :: else fi }
	a = 0
}
inline restart(x) {
	restarts--; key[x] = 0; ttl[x] = 0; counter[x] = 0; tombs[x] = 0; renamed(x); printf("server %d restarts\n", x);
	quarantine[x] = (WITHOUT == QUARANTINE || replica[x] -> 0 : LEASE - 1)
}
inline promote(x) { /* without RUNID server 0 finds its own marker when it is promoted again */
	failovers--; replica[x] = 0; renamed(x); printf("server %d is promoted\n", x);
	quarantine[x] = (WITHOUT == RUNID && x == 0 -> 0 : LEASE - 1)
}
inline demote(x) { replica[x] = 1; quarantine[x] = 0; printf("server %d becomes a replica\n", x) }
inline copy(x, y) { /* y gets all that x has, and acknowledges it */
	key[y] = key[x]; ttl[y] = ttl[x]; counter[y] = counter[x]; tombs[y] = tombs[x];
	for (a : 0 .. ATTEMPTS - 1) { if :: by[a] == x + 1 -> reply[at(a, 0)] = unsealed[a]; unsealed[a] = 0; by[a] = 0 :: else fi }
	a = 0; printf("server %d has all that server %d has\n", y, x)
}

active proctype World() {
	byte a, x;
	d_step { counter[0] = 1; high = 1; /* An attempt has failed. Its releases are late: of attempt 0, if both have one owner. */
		if :: WITHOUT == OWNER -> a = 0; add(0, RELEASE); add(1, RELEASE); add(2, RELEASE) :: else fi;
		if :: SERVERS > N -> counter[R] = 1; replica[R] = 1 :: else fi }
	do
	:: d_step { true -> printf("a tick\n");
		for (x : 0 .. SERVERS - 1) { if :: ttl[x] == 1 -> key[x] = 0 :: else fi; down(ttl[x]); down(quarantine[x]) }
		for (a : 0 .. ATTEMPTS - 1) {
			down(left[at(a, 0)]); down(left[at(a, 1)]); down(left[at(a, 2)]);
			if :: WITHOUT == SENT && st[a] == ASKING :: else -> down(sent[a]) fi;
			if :: st[a] == ASKING && sent[a] == 0 || st[a] == HELD && !holds(a) -> end() :: else fi
		}
		a = 0; x = 0 }
	:: d_step { restarts > 0 -> restart(0) }
	:: d_step { restarts > 0 -> restart(1) } /* server 2 is like 1, but for its clock */
	:: d_step { restarts > 0 && SERVERS > N -> restart(R) }
	:: d_step { replica[R] && failovers > 0 -> promote(R) }
	:: d_step { replica[0] && failovers > 0 -> promote(0) }
	:: d_step { replica[R] && !replica[0] -> copy(0, R) }
	:: d_step { replica[0] && !replica[R] -> copy(R, 0) }
	:: d_step { SERVERS > N && !replica[0] && !replica[R] -> demote(0) }
	:: d_step { SERVERS > N && !replica[0] && !replica[R] -> demote(R) }
	od
}

active [ATTEMPTS] proctype Client() {
	byte a = _pid - 1;
	do
	:: d_step { st[a] == IDLE && high > 0 && (a == 0 || st[a - 1] != IDLE) && (a < 2 || st[0] == ENDED || st[1] == ENDED) ->
		seed[a] = (CLOCK && WITHOUT != SEED -> high + 1 : 0);
		st[a] = ASKING; sent[a] = VALID; add(0, ACQUIRE); add(1, ACQUIRE); add(2, ACQUIRE);
		printf("attempt %d asks\n", a) }
	:: d_step { st[a] == HELD && renewals > 0 && sent[a] < VALID -> renewals--; sent[a] = VALID;
		each(reply, 0); unsealed[a] = 0; by[a] = 0; add(0, RENEW); add(1, RENEW); add(2, RENEW);
		printf("attempt %d renews\n", a) }
	:: d_step { st[a] == ASKING || st[a] == HELD -> end() } /* gives up, or unlocks */
	:: d_step { use[a] == 1 && token[a] >= stamp -> use[a] = 2; seen = max(seen, token[a]);
		stamp = (WITHOUT == STAMP -> stamp : token[a]); printf("attempt %d reads\n", a) }
	:: d_step { use[a] == 2 && token[a] >= stamp -> use[a] = 3; stamp = token[a];
		printf("attempt %d writes\n", a); claim(11, token[a] >= seen) }
	od
}

#define take(what)  (ask[at(a, m)] & what) && !replica[x]
#define taken(what) ask[at(a, m)] = ask[at(a, m)] & ~what
inline grant(span, more, least) { /* span is a lease by server x's clock; an owner that was released here gets none */
	printf("server %d grants attempt %d, %d\n", x, a, max(counter[x] + more, least)); claim(5, !tomb(a, x));
	key[x] = owner(a); ttl[x] = max(ttl[x], span); counter[x] = max(counter[x] + more, least); high = max(high, counter[x]);
	if
	:: st[a] == ENDED
	:: st[a] != ENDED && m == 0 && SERVERS > N && WITHOUT != SEAL -> unsealed[a] = counter[x]; by[a] = x + 1
	:: else -> reply[at(a, m)] = counter[x]
	fi
}
inline writeback(n) { if :: has[at(a, n)] > 0 && has[at(a, n)] < token[a] -> add(n, RAISE) :: else fi }

active [ATTEMPTS * SERVERS] proctype Path() { /* between attempt a and server x */
	byte a = (_pid - 1 - ATTEMPTS) / SERVERS, x = (_pid - 1 - ATTEMPTS) % SERVERS;
	do
	:: d_step { take(ACQUIRE) && free && quarantine[x] == 0 -> taken(ACQUIRE); grant(LEASE - 1 + x % 2, 1, seed[a]) }
	:: d_step { take(RENEW) && (key[x] == owner(a) || free && (quarantine[x] == 0 || WITHOUT == NOREPAIR)) -> taken(RENEW);
		grant(LEASE - 1 + x % 2, 0, token[a]) }
	:: d_step { take(RAISE) && key[x] == owner(a) -> taken(RAISE); grant(0, 0, token[a]) }
	:: d_step { take(RELEASE) -> taken(RELEASE); if :: key[x] == owner(a) -> key[x] = 0; ttl[x] = 0 :: else fi;
		if :: ask[at(a, m)] != 0 -> tombs[x] = tombs[x] | 1 << a :: else fi;
		printf("server %d releases attempt %d\n", x, a) }
	:: d_step { x < N && reply[at(a, m)] > 0 -> left[at(a, m)] = sent[a];
		if
		:: st[a] == ASKING && token[a] == 0 -> has[at(a, m)] = reply[at(a, m)];
			if
			:: count(a, inR) >= QUORUM -> token[a] = max(has[at(a, 0)], max(has[at(a, 1)], has[at(a, 2)]));
				writeback(0); writeback(1); writeback(2)
			:: else
			fi
		:: st[a] == ASKING && has[at(a, m)] > 0 -> has[at(a, m)] = token[a]
		:: else /* a late grant, or a renewal */
		fi;
		reply[at(a, m)] = 0; printf("attempt %d has master %d's reply\n", a, m);
		if
		:: st[a] == ASKING && token[a] > 0 && count(a, inW) >= QUORUM -> printf("attempt %d holds, token %d\n", a, token[a]);
			for (b : 0 .. ATTEMPTS - 1) { claim(1, !holds(b)) }
			claim(3, token[a] > top); top = max(top, token[a]);
			b = 0; each(has, 0); st[a] = HELD; use[a] = RESOURCE
		:: else
		fi }
	od
}
