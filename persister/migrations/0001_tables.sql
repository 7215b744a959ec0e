-- The tables. Times are UTC; a "log time" is the clock of the Redis master that wrote an entry.
--
-- No foreign keys point from `taps`, `tap_counts` and `audience_counts` at the dictionaries: a check per row would halve
-- the rate of COPY, and the one writer makes the dictionary rows in the same transaction.

CREATE TABLE layout (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    shards integer NOT NULL,
    layout_version integer NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE layout IS 'How the data is cut into shards: written once, compared at each start of a persister.';
COMMENT ON COLUMN layout.only_row IS 'Always true: there is one row.';
COMMENT ON COLUMN layout.shards IS 'How many logs there are.';
COMMENT ON COLUMN layout.layout_version IS 'The version of the rule that assigns rooms to shards.';
COMMENT ON COLUMN layout.written_at IS 'When it was written.';

-- fillfactor: `last_tap_at` moves with each commit, and a page with room keeps such an update out of the indexes.
CREATE TABLE rooms (
    room_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    code text NOT NULL,
    created_at timestamptz NOT NULL,
    title text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'paused', 'closed', 'unknown')),
    cooldown_ms integer,
    version bigint NOT NULL,
    expired_at timestamptz,
    first_tap_at timestamptz,
    last_tap_at timestamptz,
    UNIQUE (code, created_at)
) WITH (fillfactor = 70);
COMMENT ON TABLE rooms IS 'One row is a room. A code that is used again after its room expired makes a new row.';
COMMENT ON COLUMN rooms.room_id IS 'Names the room in the other tables.';
COMMENT ON COLUMN rooms.code IS 'The code by which people found it, upper case.';
COMMENT ON COLUMN rooms.created_at IS 'When it was created (log time).';
COMMENT ON COLUMN rooms.title IS 'Its title as the host last set it.';
COMMENT ON COLUMN rooms.state IS 'open, paused or closed; unknown when taps came and its creation was never seen.';
COMMENT ON COLUMN rooms.cooldown_ms IS 'The least time between two taps of one client, in milliseconds.';
COMMENT ON COLUMN rooms.version IS 'Grows by one with each change of the host; 0 when its creation was never seen.';
COMMENT ON COLUMN rooms.expired_at IS 'When its retention in Redis ended; empty while it lives.';
COMMENT ON COLUMN rooms.first_tap_at IS 'Time of its first counted tap.';
COMMENT ON COLUMN rooms.last_tap_at IS 'Time of its last counted tap.';

CREATE TABLE reactions (
    room_id integer NOT NULL REFERENCES rooms,
    reaction_id smallint NOT NULL,
    key text NOT NULL,
    emoji text,
    label text,
    position smallint,
    PRIMARY KEY (room_id, reaction_id),
    UNIQUE (room_id, key)
);
COMMENT ON TABLE reactions IS 'One row is a reaction of a room: all that its palette ever had, and all that was ever tapped.';
COMMENT ON COLUMN reactions.room_id IS 'Which room.';
COMMENT ON COLUMN reactions.reaction_id IS 'Numbered within the room, in the order of first appearance.';
COMMENT ON COLUMN reactions.key IS 'The key that taps carry.';
COMMENT ON COLUMN reactions.emoji IS 'The emoji as the palette last had it; empty when no palette ever had the key.';
COMMENT ON COLUMN reactions.label IS 'What a screen reader says, as the palette last had it.';
COMMENT ON COLUMN reactions.position IS 'Its place in the palette, from 0; empty when the palette has it no more.';

CREATE TABLE room_changes (
    shard smallint NOT NULL,
    log_ms bigint NOT NULL,
    log_seq bigint NOT NULL,
    room_id integer NOT NULL REFERENCES rooms,
    changed_at timestamptz NOT NULL,
    kind text NOT NULL CHECK (kind IN ('created', 'updated', 'expired')),
    version bigint NOT NULL,
    title text NOT NULL,
    state text NOT NULL,
    cooldown_ms integer NOT NULL,
    palette jsonb NOT NULL,
    PRIMARY KEY (shard, log_ms, log_seq)
);
CREATE INDEX room_changes_by_room ON room_changes (room_id, changed_at);
COMMENT ON TABLE room_changes IS 'One row is what a host did to a room, or its expiry, with the room as it was afterwards.';
COMMENT ON COLUMN room_changes.shard IS 'The log it stood in.';
COMMENT ON COLUMN room_changes.log_ms IS 'Its entry in the log: milliseconds since 1970.';
COMMENT ON COLUMN room_changes.log_seq IS 'Its entry in the log: number within the millisecond.';
COMMENT ON COLUMN room_changes.room_id IS 'Which room.';
COMMENT ON COLUMN room_changes.changed_at IS 'When (log time).';
COMMENT ON COLUMN room_changes.kind IS 'created, updated or expired.';
COMMENT ON COLUMN room_changes.version IS 'The room''s version afterwards.';
COMMENT ON COLUMN room_changes.title IS 'The title afterwards.';
COMMENT ON COLUMN room_changes.state IS 'The state afterwards.';
COMMENT ON COLUMN room_changes.cooldown_ms IS 'The cooldown afterwards, in milliseconds.';
COMMENT ON COLUMN room_changes.palette IS 'The palette afterwards: [{key, emoji, label}], in the order of the buttons.';

-- The order of the columns leaves no padding: 52 bytes a row.
CREATE TABLE taps (
    tapped_at timestamptz NOT NULL,
    client bigint NOT NULL,
    room_id integer NOT NULL,
    reaction_id smallint NOT NULL
) PARTITION BY RANGE (tapped_at);
CREATE INDEX taps_by_time ON taps USING brin (tapped_at) WITH (pages_per_range = 32, autosummarize = on);
COMMENT ON TABLE taps IS 'One row is one counted tap; a partition a day, dropped after the retention. Under pressure rows are shed (tap_counts.unrecorded says how many), counts never.';
COMMENT ON COLUMN taps.tapped_at IS 'When the person tapped (server time).';
COMMENT ON COLUMN taps.client IS 'A keyed hash of the phone''s browser: tells people apart, names none.';
COMMENT ON COLUMN taps.room_id IS 'Which room.';
COMMENT ON COLUMN taps.reaction_id IS 'Which reaction of the room.';

CREATE TABLE tap_counts (
    second timestamptz NOT NULL,
    room_id integer NOT NULL,
    reaction_id smallint NOT NULL,
    taps integer NOT NULL,
    tappers integer NOT NULL,
    unrecorded integer NOT NULL,
    PRIMARY KEY (room_id, second, reaction_id)
) PARTITION BY RANGE (second);
COMMENT ON TABLE tap_counts IS 'One row is room x reaction x second in which somebody tapped; a partition a month. Every counted tap is in here.';
COMMENT ON COLUMN tap_counts.second IS 'The second, by its start.';
COMMENT ON COLUMN tap_counts.room_id IS 'Which room.';
COMMENT ON COLUMN tap_counts.reaction_id IS 'Which reaction of the room.';
COMMENT ON COLUMN tap_counts.taps IS 'Counted taps.';
COMMENT ON COLUMN tap_counts.tappers IS 'Different clients among them; where rows were shed and a persister was restarted within the second, a client can count twice.';
COMMENT ON COLUMN tap_counts.unrecorded IS 'How many of the taps have no row in taps, because rows were shed.';

CREATE TABLE audience_counts (
    slot timestamptz NOT NULL,
    room_id integer NOT NULL,
    people integer NOT NULL,
    PRIMARY KEY (room_id, slot)
) PARTITION BY RANGE (slot);
COMMENT ON TABLE audience_counts IS 'One row is room x ten seconds with phones present; a partition a month.';
COMMENT ON COLUMN audience_counts.slot IS 'The ten seconds, by their start.';
COMMENT ON COLUMN audience_counts.room_id IS 'Which room.';
COMMENT ON COLUMN audience_counts.people IS 'The most phones present at once.';

CREATE TABLE ledger (
    shard smallint PRIMARY KEY,
    offset_ms bigint NOT NULL,
    offset_seq bigint NOT NULL,
    version bigint NOT NULL,
    taps bigint NOT NULL,
    committed_at timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE ledger IS 'One row is a shard and how far its log has been stored; it changes last in each transaction, and only if it is as it was read.';
COMMENT ON COLUMN ledger.shard IS 'The number of the shard, from 0.';
COMMENT ON COLUMN ledger.offset_ms IS 'The last entry stored: milliseconds since 1970.';
COMMENT ON COLUMN ledger.offset_seq IS 'The last entry stored: number within the millisecond.';
COMMENT ON COLUMN ledger.version IS 'Grows by one with each commit.';
COMMENT ON COLUMN ledger.taps IS 'Counted taps so far: the sum of tap_counts.taps over the shard''s rooms.';
COMMENT ON COLUMN ledger.committed_at IS 'When the last commit was made (the database''s clock).';

CREATE TABLE ledger_producers (
    shard smallint NOT NULL,
    producer bigint NOT NULL,
    number bigint NOT NULL,
    log_ms bigint NOT NULL,
    PRIMARY KEY (shard, producer)
) WITH (fillfactor = 50);
COMMENT ON TABLE ledger_producers IS 'One row is a producer of batches (one life of a gateway) and the last batch of it that was stored; forgotten after ten minutes of log time.';
COMMENT ON COLUMN ledger_producers.shard IS 'Which shard.';
COMMENT ON COLUMN ledger_producers.producer IS 'The producer''s random id.';
COMMENT ON COLUMN ledger_producers.number IS 'The number of its last batch.';
COMMENT ON COLUMN ledger_producers.log_ms IS 'The log time of that batch, milliseconds since 1970.';

CREATE TABLE rejected_batches (
    shard smallint NOT NULL,
    log_ms bigint NOT NULL,
    log_seq bigint NOT NULL,
    reason text NOT NULL,
    field bytea NOT NULL,
    value bytea NOT NULL,
    value_bytes integer NOT NULL,
    rejected_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (shard, log_ms, log_seq)
);
COMMENT ON TABLE rejected_batches IS 'One row is an entry of a log that could not be read, kept with the reason.';
COMMENT ON COLUMN rejected_batches.shard IS 'Which shard''s log.';
COMMENT ON COLUMN rejected_batches.log_ms IS 'The entry: milliseconds since 1970.';
COMMENT ON COLUMN rejected_batches.log_seq IS 'The entry: number within the millisecond.';
COMMENT ON COLUMN rejected_batches.reason IS 'Why it could not be read.';
COMMENT ON COLUMN rejected_batches.field IS 'The name of its first field.';
COMMENT ON COLUMN rejected_batches.value IS 'The value of its first field, the first mebibyte of it.';
COMMENT ON COLUMN rejected_batches.value_bytes IS 'How long the value was, in bytes.';
COMMENT ON COLUMN rejected_batches.rejected_at IS 'When it was kept aside (the database''s clock).';
