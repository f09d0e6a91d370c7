-- +goose Up

-- Databases hold schemas, schemas hold tables and views. A key is a name as it is compared: in lower case.
CREATE TABLE databases (
    workspace_id    text COLLATE "C" NOT NULL REFERENCES workspaces,
    id              text COLLATE "C" NOT NULL,
    name            text NOT NULL,
    key             text COLLATE "C" NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id   text NOT NULL,
    created_by_name text NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, id),
    UNIQUE (workspace_id, key)
);

-- A schema is known by its levels, joined by dots.
CREATE TABLE lake_schemas (
    workspace_id    text COLLATE "C" NOT NULL,
    database_id     text COLLATE "C" NOT NULL,
    key             text COLLATE "C" NOT NULL,
    parent_key      text COLLATE "C" NOT NULL, -- empty for the first level
    name            text NOT NULL,
    properties      jsonb NOT NULL DEFAULT '{}',
    created_by_kind text NOT NULL,
    created_by_id   text NOT NULL,
    created_by_name text NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, database_id, key),
    FOREIGN KEY (workspace_id, database_id) REFERENCES databases
);
CREATE INDEX lake_schemas_parent ON lake_schemas (workspace_id, database_id, parent_key, key);

-- Tables and views. A dropped one outlives its schema and its database, so nothing refers to them: who makes a table holds its schema's row meanwhile.
CREATE TABLE lake_tables (
    workspace_id      text COLLATE "C" NOT NULL REFERENCES workspaces,
    id                text COLLATE "C" NOT NULL,
    kind              text NOT NULL CHECK (kind IN ('table', 'view')),
    database_id       text COLLATE "C" NOT NULL,
    schema            text NOT NULL,
    schema_key        text COLLATE "C" NOT NULL,
    name              text NOT NULL,
    name_key          text COLLATE "C" NOT NULL,
    uuid              text NOT NULL,
    location          text COLLATE "C" NOT NULL,
    metadata_location text COLLATE "C" NOT NULL, -- the pointer: a commit compares it and swaps it
    version           int NOT NULL,
    format_version    int NOT NULL,
    registered        boolean NOT NULL,
    snapshot_id       bigint,
    snapshot_at       timestamptz,
    operation         text NOT NULL,
    row_count         bigint,
    data_bytes        bigint,
    data_files        bigint,
    created_by_kind   text NOT NULL,
    created_by_id     text NOT NULL,
    created_by_name   text NOT NULL,
    updated_by_kind   text NOT NULL,
    updated_by_id     text NOT NULL,
    updated_by_name   text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    dropped_at        timestamptz,
    purge             boolean NOT NULL DEFAULT false, -- its files go with it
    purge_after       timestamptz,
    purge_next        timestamptz, -- when it is to be forgotten: purge_after, and later than that where it has failed
    purge_failures    int NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace_id, id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX lake_tables_live ON lake_tables (workspace_id, database_id, schema_key, name_key) WHERE dropped_at IS NULL;
CREATE INDEX lake_tables_list ON lake_tables (workspace_id, database_id, kind, id) WHERE dropped_at IS NULL;
CREATE INDEX lake_tables_dropped ON lake_tables (workspace_id, database_id, kind, id) WHERE dropped_at IS NOT NULL;
CREATE INDEX lake_tables_due ON lake_tables (purge_next) WHERE dropped_at IS NOT NULL;

-- Every place that a table or a view has had, and every directory that a property of it leads its writers into. None overlaps with another table's; a dropped one
-- keeps its places until it is forgotten.
CREATE TABLE lake_locations (
    workspace_id text COLLATE "C" NOT NULL,
    location     text COLLATE "C" NOT NULL,
    table_id     text COLLATE "C" NOT NULL,
    property     boolean NOT NULL DEFAULT false, -- of a property: not all that lies there need be the table's
    PRIMARY KEY (workspace_id, location),
    CONSTRAINT lake_locations_owner FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables ON DELETE CASCADE DEFERRABLE
);
CREATE INDEX lake_locations_table ON lake_locations (workspace_id, table_id);

-- How changes that came with an idempotency key were answered.
CREATE TABLE lake_answers (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    actor        text NOT NULL,
    key          text NOT NULL,
    hash         bytea NOT NULL,
    body         jsonb NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, actor, key)
);
CREATE INDEX lake_answers_age ON lake_answers (created_at);

-- What runs and statements have read and written, as of which snapshot. Names are those of that moment.
CREATE TABLE lineage (
    workspace_id text COLLATE "C" NOT NULL REFERENCES workspaces,
    actor_kind   text COLLATE "C" NOT NULL,
    actor_id     text COLLATE "C" NOT NULL,
    actor_name   text NOT NULL,
    direction    text NOT NULL CHECK (direction IN ('read', 'written')),
    table_id     text COLLATE "C" NOT NULL,
    snapshot_id  bigint NOT NULL, -- 0 where the table had none
    at           timestamptz NOT NULL,
    database     text NOT NULL,
    schema       text NOT NULL,
    name         text NOT NULL,
    columns      text[], -- null where they are not known
    PRIMARY KEY (workspace_id, actor_kind, actor_id, direction, table_id, snapshot_id)
);
CREATE INDEX lineage_table ON lineage (workspace_id, table_id, at);

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['databases', 'lake_schemas', 'lake_tables', 'lake_locations', 'lake_answers', 'lineage']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY app ON %I TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace())', t);
        EXECUTE format('CREATE POLICY system ON %I TO millpond_system USING (true) WITH CHECK (true)', t);
    END LOOP;
END
$$;
-- +goose StatementEnd

GRANT SELECT, INSERT, UPDATE, DELETE ON databases, lake_schemas, lake_tables, lake_locations, lake_answers TO millpond_app;
GRANT SELECT, INSERT ON lineage TO millpond_app;
GRANT SELECT, INSERT ON databases, lake_schemas TO millpond_system;
GRANT SELECT ON lake_tables TO millpond_system;
GRANT SELECT, DELETE ON lake_answers TO millpond_system;

-- Workspaces that are there already get what a new one starts with: the database lake with the schema public. Its id is a UUIDv7 in base 32, as all are.
-- +goose StatementBegin
DO $$
DECLARE
    w record;
    n numeric;
    id text;
    at timestamptz := date_trunc('milliseconds', now());
BEGIN
    FOR w IN SELECT workspace_id FROM workspaces LOOP
        n := floor(extract(epoch FROM at) * 1000) * 2::numeric ^ 80 + 7 * 2::numeric ^ 76 + floor(random() * 4096)::numeric * 2::numeric ^ 64
            + 2 * 2::numeric ^ 62 + floor(random() * 2147483648)::numeric * 2147483648 + floor(random() * 2147483648)::numeric;
        id := '';
        FOR i IN 1..26 LOOP
            id := substr('0123456789abcdefghjkmnpqrstvwxyz', mod(n, 32)::int + 1, 1) || id;
            n := div(n, 32);
        END LOOP;
        INSERT INTO databases VALUES (w.workspace_id, 'db_' || id, 'lake', 'lake', 'system', 'system', 'workspace', at);
        INSERT INTO lake_schemas VALUES (w.workspace_id, 'db_' || id, 'public', '', 'public', '{}', 'system', 'system', 'workspace', at);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP TABLE lineage, lake_answers, lake_locations, lake_tables, lake_schemas, databases;
