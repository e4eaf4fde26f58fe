#include "store/redis/script.h"

/* The counter of changes, and whose it is; ARGV[2] if there is none yet. */
#define COUNTER                                                                                    \
    "local number, origin = 0, ARGV[2]\n"                                                          \
    "local seq = redis.call('GET', KEYS[1])\n"                                                     \
    "if seq then\n"                                                                                \
    "  local n, o = string.match(seq, '^([1-9]%d*) (%x+)$')\n"                                     \
    "  if not n then return redis.error_reply('TENURECORRUPT seq') end\n"                          \
    "  number, origin = tonumber(n), o\n"                                                          \
    "end\n"

/*
 * Lua 5.1 with doubles: numbers of changes stay below 2^53 and travel as text.
 * Other numbers are texts too where it is cheap: Redis prints each with %.17g.
 */
const char *const tn_redis_script_text[TN_REDIS_SCRIPTS] = {
    [TN_REDIS_PROBE] = "redis.call('PERSIST', KEYS[1])\n"
                       "local text = ''\n"
                       "for _, part in ipairs({'server', 'replication', 'cluster', 'memory',\n"
                       "                       'persistence'}) do\n"
                       "  text = text .. redis.call('INFO', part)\n"
                       "end\n"
                       "return text\n",

    [TN_REDIS_READ] = "if ARGV[1] == '1' then redis.call('SET', KEYS[2], '1')\n"
                      "else redis.call('PERSIST', KEYS[1]) end\n"
                      "local text = redis.call('GETRANGE', KEYS[3], 0, ARGV[2])\n"
                      "if text == '' and redis.call('EXISTS', KEYS[3]) == 0 then return false end\n"
                      "return text\n",

    [TN_REDIS_SWAP] =
        "" COUNTER
        /* Phase one: compare.  Nothing is written. */
        "local ends = {}\n"
        "local function verdict(key, want)\n"
        "  local last = ends[#want]\n"
        "  if not last then\n"
        "    last = string.format('%d', want == '' and 7 or #want - 1)\n"
        "    ends[#want] = last\n"
        "  end\n"
        "  local got = redis.pcall('GETRANGE', key, '0', last)\n"
        "  if type(got) == 'table' then\n"
        "    if string.find(got.err, 'WRONGTYPE', 1, true) then return 'g' end\n"
        "    redis.call('GETRANGE', key, '0', '0')\n"
        "  end\n"
        "  if got == '' then\n"
        "    if redis.call('EXISTS', key) == 1 then return 'g' end\n"
        "    return want == '' and 'o' or 'c'\n"
        "  end\n"
        "  if got == want then return 'o' end\n"
        "  return string.sub(got, 1, 8) == 'tenure1 ' and 'c' or 'g'\n"
        "end\n"
        "local verdicts, any = {}, false\n"
        "for i = 4, #KEYS do\n"
        "  local want = ARGV[i * 2 - 5]\n"
        "  local v = verdict(KEYS[i], want)\n"
        "  verdicts[i - 3] = v\n"
        "  if v == 'o' then\n"
        "    any = true\n"
        /* The counter was lost but the register was not: numbers do not restart. */
        "    local n = tonumber(string.match(want, '^tenure1 (%d+)') or 0)\n"
        "    if n > number then number = n end\n"
        "  end\n"
        "end\n"
        "if not any then return {'', table.concat(verdicts)} end\n"
        "number = number + 1\n"
        "if number > 9007199254740991 then return redis.error_reply('TENURECORRUPT seq') end\n"
        "local version = string.format('%.0f', number)\n"
        /* Phase two: the books, the news, and then all registers by one command. */
        "local index, log, sets = {'ZADD', KEYS[2]}, {'ZADD', KEYS[3]}, {'MSET'}\n"
        "redis.call('SET', KEYS[1], version .. ' ' .. origin)\n"
        "for i = 4, #KEYS do\n"
        "  if verdicts[i - 3] == 'o' then\n"
        "    local tail = ARGV[i * 2 - 4]\n"
        "    local key = string.sub(KEYS[i], ARGV[1])\n"
        /* Nothing follows: a tombstone is deleted, and it is alone in its batch. */
        "    if tail == '' then\n"
        "      redis.call('DEL', KEYS[i])\n"
        "      redis.call('ZREM', KEYS[2], key)\n"
        "      redis.call('ZREM', KEYS[3], key)\n"
        "      return {version, 'o'}\n"
        "    end\n"
        "    index[#index + 1] = '0'\n"
        "    index[#index + 1] = key\n"
        "    log[#log + 1] = version\n"
        "    log[#log + 1] = key\n"
        "    sets[#sets + 1] = KEYS[i]\n"
        "    sets[#sets + 1] = 'tenure1 ' .. version .. ' ' .. tail\n"
        "    redis.call('PUBLISH', KEYS[i], version .. ' ' .. string.sub(tail, 1, 33))\n"
        "  end\n"
        "end\n"
        "redis.call(unpack(index))\n"
        "redis.call(unpack(log))\n"
        "redis.call(unpack(sets))\n"
        "return {version, table.concat(verdicts)}\n",

    [TN_REDIS_LIST] =
        "if ARGV[1] == '1' then redis.call('SET', KEYS[2], '1')\n"
        "else redis.call('PERSIST', KEYS[1]) end\n"
        "local keys = redis.call('ZRANGEBYLEX', KEYS[3], ARGV[4], ARGV[5], 'LIMIT', 0, ARGV[6])\n"
        "local more = #keys == tonumber(ARGV[6]) and '1' or '0'\n"
        "local answer = {redis.call('GET', KEYS[1]) or '', more, ''}\n"
        "local bytes = 0\n"
        "for i, key in ipairs(keys) do\n"
        "  local name = ARGV[3] .. key\n"
        "  local text = redis.pcall('GETRANGE', name, 0, ARGV[2])\n"
        "  if type(text) == 'table' then\n"
        "    if not string.find(text.err, 'WRONGTYPE', 1, true) then\n"
        "      redis.call('GETRANGE', name, 0, 0)\n"
        "    end\n"
        "    text = 'WRONGTYPE'\n"
        "  end\n"
        "  answer[3] = key\n"
        "  if text ~= '' or redis.call('EXISTS', name) == 1 then\n"
        "    answer[#answer + 1] = key\n"
        "    answer[#answer + 1] = text\n"
        "  end\n"
        "  bytes = bytes + #text\n"
        "  if bytes > 524288 and i < #keys then answer[2] = '1' break end\n"
        "end\n"
        "return answer\n",

    [TN_REDIS_CHECK] =
        "redis.call('PERSIST', KEYS[1])\n"
        "for i = 3, #KEYS do\n"
        "  local want = ARGV[i - 2]\n"
        "  if want == '' then\n"
        "    if redis.call('EXISTS', KEYS[i]) == 1 then return 1 end\n"
        "  elseif redis.call('GETRANGE', KEYS[i], 0, #want - 1) ~= want then return 1 end\n"
        "end\n"
        "local seq = redis.call('GET', KEYS[1]) or '0 -'\n"
        "local n, origin = string.match(seq, '^(%d+) (.+)$')\n"
        "for i = #KEYS - 1, #ARGV, 3 do\n"
        "  local prefix, then_n, then_origin = ARGV[i], ARGV[i + 1], ARGV[i + 2]\n"
        "  if then_origin ~= '-' and then_origin ~= origin then return 1 end\n"
        "  if tonumber(n) < tonumber(then_n) then return 1 end\n"
        "  if then_n ~= n then\n"
        "    local keys = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. then_n, '+inf',\n"
        "                            'LIMIT', 0, 1001)\n"
        "    if #keys > 1000 then return 1 end\n"
        "    for _, key in ipairs(keys) do\n"
        "      if string.sub(key, 1, #prefix) == prefix then return 1 end\n"
        "    end\n"
        "  end\n"
        "end\n"
        "return 0\n",

    [TN_REDIS_READ_MANY] =
        "if ARGV[1] == '1' then redis.call('SET', KEYS[2], '1')\n"
        "else redis.call('PERSIST', KEYS[1]) end\n"
        "local answer, bytes = {}, 0\n"
        "for i = 3, #KEYS do\n"
        "  local text = redis.pcall('GETRANGE', KEYS[i], '0', ARGV[2])\n"
        "  if type(text) == 'table' then\n"
        "    if not string.find(text.err, 'WRONGTYPE', 1, true) then\n"
        "      redis.call('GETRANGE', KEYS[i], '0', '0')\n"
        "    end\n"
        "    text = 'WRONGTYPE'\n"
        "  end\n"
        "  bytes = bytes + #text\n"
        "  if text == '' and redis.call('EXISTS', KEYS[i]) == 0 then text = false end\n"
        "  answer[i - 2] = text\n"
        "  if bytes > 524288 then break end\n"
        "end\n"
        "return answer\n",

    [TN_REDIS_LOOK] = "if ARGV[1] == '1' then redis.call('SET', KEYS[2], '1')\n"
                      "else redis.call('PERSIST', KEYS[1]) end\n"
                      "local kind = redis.call('TYPE', KEYS[3]).ok\n"
                      "if kind == 'none' then return false end\n"
                      "local n, text = 0, ''\n"
                      "if kind == 'string' then\n"
                      "  n = redis.call('STRLEN', KEYS[3])\n"
                      "  if n <= tonumber(ARGV[2]) then text = redis.call('GET', KEYS[3]) end\n"
                      "else\n"
                      "  text = redis.call('DUMP', KEYS[3])\n"
                      "  n = #text\n"
                      "  if n > tonumber(ARGV[2]) then text = '' end\n"
                      "end\n"
                      "return {kind, string.format('%.0f', n), text}\n",

    [TN_REDIS_REPAIR] =
        "" COUNTER "if redis.call('TYPE', KEYS[4]).ok ~= ARGV[3] then return {'', 'c'} end\n"
        "local now = redis.call(ARGV[3] == 'string' and 'GET' or 'DUMP', KEYS[4])\n"
        "if now ~= ARGV[4] then return {'', 'c'} end\n"
        /* The counter was lost, and the register still tells a number that may be true. */
        "local n = tonumber(string.match(now, '^tenure1 (%d+) ') or 0)\n"
        "if n > number and n < 4503599627370496 then number = n end\n"
        "number = number + 1\n"
        "if number > 9007199254740991 then return redis.error_reply('TENURECORRUPT seq') end\n"
        "local version = string.format('%.0f', number)\n"
        "local key = string.sub(KEYS[4], ARGV[1])\n"
        "redis.call('SET', KEYS[1], version .. ' ' .. origin)\n"
        "redis.call('PUBLISH', KEYS[4], version .. ' ' .. string.sub(ARGV[5], 1, 33))\n"
        "redis.call('ZADD', KEYS[2], '0', key)\n"
        "redis.call('ZADD', KEYS[3], version, key)\n"
        "redis.call('MSET', KEYS[4], 'tenure1 ' .. version .. ' ' .. ARGV[5])\n"
        "return {version, 'o'}\n",
};
