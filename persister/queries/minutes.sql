-- How did the first minutes go? Give a range of `second`: only its months are read.
SELECT date_trunc('minute', second) AS minute,
       sum(taps) AS taps,
       coalesce(sum(taps) FILTER (WHERE key = 'clap'), 0) AS applause,
       coalesce(sum(taps) FILTER (WHERE key = 'laugh'), 0) AS laughs
FROM room_timeline
WHERE code = 'KX7M2P'
  AND second >= '2026-05-12 09:08Z' AND second < '2026-05-12 09:13Z'
GROUP BY minute
ORDER BY minute;
