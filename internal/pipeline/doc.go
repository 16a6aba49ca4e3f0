// Package pipeline carries the calls of many callers to one server, in order, over one connection
// at a time.
//
// A pipe connects with its first call. One writer flushes the calls that have gathered in the
// queue, one reader takes the replies and hands them out in the same order. The states of a pipe:
//
//	        Start                 connected
//	idle ───────────▶ connecting ───────────▶ up
//	                   │      ▲                │
//	    cannot connect │      └────────────────┤ the connection dies
//	                   ▼                       │
//	                  down ◀───────────────────┘ no reply within the timeout
//	                    └── probed with a backoff; connected ──▶ up
//
// While a pipe is down, calls fail at once. The life of a request:
//
//	Start ──▶ queue ──▶ written ──▶ reply ──▶ Receiver.Done
//	            ▲          │          │
//	            ├──────────┤          │      the connection died: resent, at most three times
//	            ├──────────┼──────────┤      the server is no longer a master: sent on the next connection
//	            ├──────────┼──────────┤      the script is not known (NOSCRIPT): resent as text, once
//	            ├──────────┼──────────┘      the run that it shared left it undone: resent alone
//	            │          └──▶ Done(error)  no reply within the timeout, or resent too often;
//	            │                            a release is then owed
//	            └── owed, due later          a release that the server refused, after its Done
//
// Every script may be carried out twice, so a request may be resent. A release must reach the
// server:
//
//   - What is owed because the server did not answer, and never refused, is sent on the next connection,
//     before any new call.
//   - What is owed because the server refused it is resent after a growing pause, and delays no other call.
//
// Acquires that are written together share a run of a script, and so do releases: see arranger.
package pipeline
