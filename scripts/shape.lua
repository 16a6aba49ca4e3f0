-- shape: what a lock looks like. This text precedes acquire's, inspect's and force's, which may find
-- an application's hash at a name.
--
-- A lock is a hash of one field. Its value, the level, is a positive decimal number of at most 9
-- digits. The field is the owner. It has at most 1024 bytes, and ends in a colon and digits
-- (<locker>:<number>, Redisson's <uuid>:<thread>).
--
-- Readers of a name are a sorted set. Each member is readerPrefix and an owner. Its score is the end of
-- the owner's lease, in ms by the server's clock. An application's sorted set has another member: that one
-- is at an end soon, since readers raise their scores. So it is enough to look at both ends.

local call = redis.call

-- lockAt returns the owner and the level of the lock at a key, or nil and an error if the key is no lock.
-- For readers it returns the last one, the level '', and the end of its lease, which may be over. With all, it
-- looks at each member, because the caller is to delete some. It is the only function here, because
-- defining one takes a hundredth of a grant's time.
local function lockAt(key, all)
  local fields, kind = redis.pcall('HLEN', key), 'hash'
  if type(fields) == 'table' then
    local last = redis.pcall('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    if last.err then -- the user may not look at readers, or there are none
      local wrong, command = fields, 'HLEN'
      if redis.pcall('TYPE', key).ok == 'zset' then
        wrong, command = last, 'ZREVRANGE'
      end
      if not string.find(wrong.err, 'WRONGTYPE', 1, true) then
        wrong.err = wrong.err .. ' (' .. command .. ')'
      end
      return nil, wrong
    end
    local members, wrong = call('ZRANGE', key, 0, all and -1 or 0), #last[1] > #readerPrefix + 1024
    members[#members + 1] = last[1]
    for i = 1, #members do
      wrong = wrong or string.sub(members[i], 1, #readerPrefix) ~= readerPrefix
    end
    if not wrong then
      return string.sub(last[1], #readerPrefix + 1), '', tonumber(last[2])
    end
    kind = 'sorted set'
  elseif fields == 1 then
    local field = call('HGETALL', key)
    local owner, level = field[1], field[2]
    local counts = #level < 10 and string.find(level, '^[1-9]%d*$')
    if counts and #owner <= 1024 and string.find(owner, '.:%d+$') then
      return owner, level
    end
  end
  local shown = string.gsub(string.sub(key, 1, 64), '%c', '?') -- a line break could end the reply
  return nil, redis.error_reply('QUORUMLOCK the key "' .. shown .. '" holds a ' .. kind .. ' that is no lock')
end

