-- shape: what a lock looks like. It stands before the text of acquire, inspect and force, which may meet a hash of an application's
-- at a name.
--
-- A lock is a hash of one field. Its value, the level, is a positive number in decimal, of 9 digits at most. The field, the owner,
-- ends in a colon and digits (<locker>:<number>, Redisson's <uuid>:<thread>), or else the key has a time to live, as every lock has
-- until somebody takes it away (PERSIST).

local call = redis.call

-- lockAt returns owner and level of the lock at a key that has so many ms to live, or nil and an error when that is no lock. It is
-- the only function here because making one takes a hundredth of the time of a grant.
local function lockAt(key, ttl)
  if call('HLEN', key) == 1 then
    local field = call('HGETALL', key)
    local owner, level = field[1], field[2]
    local counts = #level < 10 and string.find(level, '^[1-9]%d*$')
    if counts and owner ~= '' and (ttl ~= -1 or string.find(owner, '.:%d+$')) then
      return owner, level
    end
  end
  local shown = string.gsub(string.sub(key, 1, 64), '%c', '?') -- a new line in it could end the reply
  return nil, redis.error_reply('QUORUMLOCK the key "' .. shown .. '" holds a hash that is no lock')
end

