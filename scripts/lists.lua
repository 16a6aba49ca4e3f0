-- lists: whether the node's marker accepts a client. This text precedes acquire's and renew's,
-- which compare the marker's first line with the one that the client expects, and call this
-- function only when the two differ.
--
-- A marker has four lines (scripts.Marker):
--   <admitted, ms> <run> <max lease, ms> <this member> <digest of the members>
--   <generation> <time of the next change, ms>
--   <members>
--   <digest of the next members, or -> <next members>
-- A claim, which accepts nobody yet, has ? before both digests. The expected line is the one of a node
-- that was admitted long ago: 0 <run> <max lease> <member> <digest>.

-- accepts returns nil unless the client expects the marker's members or its next ones. Otherwise it returns
-- the marker's admitted, as text, and whether the marker names the client's process. The marker
-- of an earlier process came back with its data, and counts only for owners that came back with it.
local function accepts(marker, expected)
  local run, member, digest = string.match(expected, '^0 (%S+) (%d+ %S+) (%S+)\n')
  local admitted, itsRun, itsMember, members, next = string.match(marker or '',
    '^(%d+) (%S+) (%d+ %S+) (%S+)\n%d+ %d+\n[^\n]*\n(%S+)')
  if itsMember == member and (members == digest or next == digest) then
    return admitted, itsRun == run
  end
end

