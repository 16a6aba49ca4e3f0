-- shape: what a lock looks like. This text precedes that of acquire, inspect and force, which may find
-- an application's hash at a name.
--
-- A lock is a hash of one field. Its value, the level, is a positive decimal number of at most 9
-- digits. The field is the owner. It has at most 1024 bytes, and ends in a colon and digits
-- (<locker>:<number>, Redisson's <uuid>:<thread>).

local call = redis.call

-- lockAt returns the owner and the level of the lock at a key, or nil and an error if the hash is no
-- lock. It is the only function here, because defining one takes a hundredth of a grant's time.
local function lockAt(key)
  if call('HLEN', key) == 1 then
    local field = call('HGETALL', key)
    local owner, level = field[1], field[2]
    local counts = #level < 10 and string.find(level, '^[1-9]%d*$')
    if counts and #owner <= 1024 and string.find(owner, '.:%d+$') then
      return owner, level
    end
  end
  local shown = string.gsub(string.sub(key, 1, 64), '%c', '?') -- a line break could end the reply
  return nil, redis.error_reply('QUORUMLOCK the key "' .. shown .. '" holds a hash that is no lock')
end

