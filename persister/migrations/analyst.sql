-- The group role for analysts, at every start of a persister and not once: an administrator may make the role later
-- where the persister's own user must not make roles.
--
-- A role belongs to the server, not to the database: two databases can be set up at the same moment, hence the two
-- exceptions beside the missing privilege.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'uproar_analyst') THEN
        BEGIN
            CREATE ROLE uproar_analyst NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN NULL;
        END;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'uproar_analyst') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO uproar_analyst', current_schema());
        GRANT SELECT ON rooms, reactions, room_changes, taps, tap_counts, audience_counts, ledger,
            room_summary, room_timeline, peak_moments, reaction_mix TO uproar_analyst;
    END IF;
END
$$;
