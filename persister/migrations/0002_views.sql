-- The views for analysts. Those of a whole room go from the room to its counts by `first_tap_at` and `last_tap_at`, so
-- that only the partitions in which the room lived are read, whatever else is stored; room_timeline shows `second` as it
-- is, so that a condition on it prunes partitions before the query starts.

CREATE VIEW room_timeline AS
SELECT r.code, r.title, c.second, x.key, x.emoji, x.label, c.taps, c.tappers, c.unrecorded, r.created_at, r.room_id
FROM tap_counts c
JOIN rooms r ON r.room_id = c.room_id
JOIN reactions x ON x.room_id = c.room_id AND x.reaction_id = c.reaction_id;
COMMENT ON VIEW room_timeline IS 'How a room went: a row for each reaction and second in which somebody tapped it. Give a range of second: only its months are read.';
COMMENT ON COLUMN room_timeline.code IS 'The room''s code.';
COMMENT ON COLUMN room_timeline.title IS 'Its title.';
COMMENT ON COLUMN room_timeline.second IS 'The second, by its start.';
COMMENT ON COLUMN room_timeline.key IS 'The reaction''s key.';
COMMENT ON COLUMN room_timeline.emoji IS 'Its emoji.';
COMMENT ON COLUMN room_timeline.label IS 'Its label.';
COMMENT ON COLUMN room_timeline.taps IS 'Counted taps.';
COMMENT ON COLUMN room_timeline.tappers IS 'Different clients among them.';
COMMENT ON COLUMN room_timeline.unrecorded IS 'How many of the taps have no row in taps.';
COMMENT ON COLUMN room_timeline.created_at IS 'When the room was created: tells rooms apart that had the same code.';
COMMENT ON COLUMN room_timeline.room_id IS 'The room''s number.';

CREATE VIEW room_summary AS
SELECT r.code, r.title, r.state, coalesce(c.taps, 0) AS taps, coalesce(c.unrecorded, 0) AS unrecorded,
       coalesce(c.busy_seconds, 0) AS busy_seconds, a.people_most, r.first_tap_at, r.last_tap_at,
       r.created_at, r.expired_at, r.room_id
FROM rooms r
LEFT JOIN LATERAL (
    SELECT sum(t.taps)::bigint AS taps, sum(t.unrecorded)::bigint AS unrecorded, count(DISTINCT t.second) AS busy_seconds
    FROM tap_counts t
    WHERE t.room_id = r.room_id
      AND t.second > r.first_tap_at - interval '1 second' AND t.second <= r.last_tap_at
) c ON true
LEFT JOIN LATERAL (
    SELECT max(p.people) AS people_most FROM audience_counts p WHERE p.room_id = r.room_id
) a ON true;
COMMENT ON VIEW room_summary IS 'A row for each room: what it was, how much it was tapped, how many came.';
COMMENT ON COLUMN room_summary.code IS 'The room''s code.';
COMMENT ON COLUMN room_summary.title IS 'Its title.';
COMMENT ON COLUMN room_summary.state IS 'open, paused or closed; unknown when its creation was never seen.';
COMMENT ON COLUMN room_summary.taps IS 'All counted taps.';
COMMENT ON COLUMN room_summary.unrecorded IS 'How many of the taps have no row in taps.';
COMMENT ON COLUMN room_summary.busy_seconds IS 'Seconds in which anybody tapped.';
COMMENT ON COLUMN room_summary.people_most IS 'The most phones present at once.';
COMMENT ON COLUMN room_summary.first_tap_at IS 'Time of its first tap.';
COMMENT ON COLUMN room_summary.last_tap_at IS 'Time of its last tap.';
COMMENT ON COLUMN room_summary.created_at IS 'When it was created: tells rooms apart that had the same code.';
COMMENT ON COLUMN room_summary.expired_at IS 'When its retention in Redis ended.';
COMMENT ON COLUMN room_summary.room_id IS 'The room''s number.';

CREATE VIEW reaction_mix AS
SELECT r.code, r.title, x.key, x.emoji, x.label, c.taps,
       round(100.0 * c.taps / sum(c.taps) OVER (PARTITION BY r.room_id), 1) AS share_percent,
       r.created_at, r.room_id
FROM rooms r
CROSS JOIN LATERAL (
    SELECT t.reaction_id, sum(t.taps)::bigint AS taps
    FROM tap_counts t
    WHERE t.room_id = r.room_id
      AND t.second > r.first_tap_at - interval '1 second' AND t.second <= r.last_tap_at
    GROUP BY t.reaction_id
) c
JOIN reactions x ON x.room_id = r.room_id AND x.reaction_id = c.reaction_id;
COMMENT ON VIEW reaction_mix IS 'A row for each room and reaction: its taps, and its share of the room''s taps.';
COMMENT ON COLUMN reaction_mix.code IS 'The room''s code.';
COMMENT ON COLUMN reaction_mix.title IS 'Its title.';
COMMENT ON COLUMN reaction_mix.key IS 'The reaction''s key.';
COMMENT ON COLUMN reaction_mix.emoji IS 'Its emoji.';
COMMENT ON COLUMN reaction_mix.label IS 'Its label.';
COMMENT ON COLUMN reaction_mix.taps IS 'All counted taps of it.';
COMMENT ON COLUMN reaction_mix.share_percent IS 'Its share of the room''s taps, in percent.';
COMMENT ON COLUMN reaction_mix.created_at IS 'When the room was created: tells rooms apart that had the same code.';
COMMENT ON COLUMN reaction_mix.room_id IS 'The room''s number.';

CREATE VIEW peak_moments AS
SELECT r.code, r.title, m.rank, m.moment, m.taps, m.top_emoji, m.top_key, m.top_taps,
       (SELECT p.people FROM audience_counts p WHERE p.room_id = r.room_id AND p.slot = m.moment) AS people,
       r.created_at, r.room_id
FROM rooms r
CROSS JOIN LATERAL (
    SELECT row_number() OVER (ORDER BY sum(s.taps) DESC, s.moment) AS rank, s.moment, sum(s.taps)::bigint AS taps,
           (array_agg(x.emoji ORDER BY s.taps DESC, x.key))[1] AS top_emoji,
           (array_agg(x.key ORDER BY s.taps DESC, x.key))[1] AS top_key,
           max(s.taps) AS top_taps
    FROM (
        SELECT date_bin('10 seconds', t.second, timestamptz 'epoch') AS moment, t.reaction_id, sum(t.taps)::bigint AS taps
        FROM tap_counts t
        WHERE t.room_id = r.room_id
          AND t.second > r.first_tap_at - interval '1 second' AND t.second <= r.last_tap_at
        GROUP BY 1, 2
    ) s
    JOIN reactions x ON x.room_id = r.room_id AND x.reaction_id = s.reaction_id
    GROUP BY s.moment
    ORDER BY rank
    LIMIT 10
) m;
COMMENT ON VIEW peak_moments IS 'The ten strongest moments of ten seconds of each room, and what was tapped most in each.';
COMMENT ON COLUMN peak_moments.code IS 'The room''s code.';
COMMENT ON COLUMN peak_moments.title IS 'Its title.';
COMMENT ON COLUMN peak_moments.rank IS '1 is the strongest moment of the room.';
COMMENT ON COLUMN peak_moments.moment IS 'The ten seconds, by their start.';
COMMENT ON COLUMN peak_moments.taps IS 'Counted taps of all reactions.';
COMMENT ON COLUMN peak_moments.top_emoji IS 'The emoji of the reaction tapped most.';
COMMENT ON COLUMN peak_moments.top_key IS 'Its key.';
COMMENT ON COLUMN peak_moments.top_taps IS 'Its taps.';
COMMENT ON COLUMN peak_moments.people IS 'The most phones present at once in these ten seconds.';
COMMENT ON COLUMN peak_moments.created_at IS 'When the room was created: tells rooms apart that had the same code.';
COMMENT ON COLUMN peak_moments.room_id IS 'The room''s number.';
