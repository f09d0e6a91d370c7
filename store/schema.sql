-- The schema after all migrations, read from the catalogue. UPDATE_GOLDEN=1 go test ./store writes it.

CREATE TABLE agents (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    token_hash bytea NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    hostname text DEFAULT ''::text NOT NULL,
    os text DEFAULT ''::text NOT NULL,
    arch text DEFAULT ''::text NOT NULL,
    slots integer DEFAULT 0 NOT NULL,
    instance text DEFAULT ''::text NOT NULL,
    session text DEFAULT ''::text NOT NULL,
    replica text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    connected_at timestamp with time zone,
    last_seen_at timestamp with time zone,
    lease_expires_at timestamp with time zone,
    machine_id text COLLATE "C" DEFAULT ''::text NOT NULL,
    bootstrap_hash bytea,
    bootstrap_expires_at timestamp with time zone,
    engines jsonb DEFAULT '[]'::jsonb NOT NULL,
    changed xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT agents_bootstrap_hash_key UNIQUE (bootstrap_hash),
    CONSTRAINT agents_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT agents_token_hash_key UNIQUE (token_hash),
    CONSTRAINT agents_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE agents ENABLE ROW LEVEL SECURITY;

CREATE TABLE api_keys (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    hint text NOT NULL,
    role text NOT NULL,
    secret_hash bytea NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT api_keys_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT api_keys_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'editor'::text, 'admin'::text]))),
    CONSTRAINT api_keys_secret_hash_key UNIQUE (secret_hash),
    CONSTRAINT api_keys_workspace_id_created_by_fkey FOREIGN KEY (workspace_id, created_by) REFERENCES members(workspace_id, user_id) ON DELETE CASCADE
);
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;

CREATE TABLE attempts (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    task_key text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    status text NOT NULL,
    exit_code integer,
    signal text DEFAULT ''::text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    held text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    log_size bigint DEFAULT 0 NOT NULL,
    log_sealed boolean DEFAULT false NOT NULL,
    cancel_reason text DEFAULT ''::text NOT NULL,
    CONSTRAINT attempts_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT attempts_status_check CHECK ((status = ANY (ARRAY['starting'::text, 'running'::text, 'success'::text, 'failed'::text, 'cancelled'::text, 'lost'::text]))),
    CONSTRAINT attempts_workspace_id_agent_id_fkey FOREIGN KEY (workspace_id, agent_id) REFERENCES agents(workspace_id, id),
    CONSTRAINT attempts_workspace_id_run_id_task_key_fkey FOREIGN KEY (workspace_id, run_id, task_key) REFERENCES tasks(workspace_id, run_id, key) ON DELETE CASCADE,
    CONSTRAINT attempts_workspace_id_run_id_task_key_number_key UNIQUE (workspace_id, run_id, task_key, number)
);
ALTER TABLE attempts ENABLE ROW LEVEL SECURITY;

CREATE TABLE audit_events (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    actor_kind text NOT NULL,
    actor_id text NOT NULL,
    actor_name text NOT NULL,
    action text NOT NULL,
    resource_type text NOT NULL,
    resource_id text NOT NULL,
    outcome text NOT NULL,
    detail text NOT NULL,
    CONSTRAINT audit_events_outcome_check CHECK ((outcome = ANY (ARRAY['success'::text, 'denied'::text, 'failure'::text]))),
    CONSTRAINT audit_events_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT audit_events_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE audit_events ENABLE ROW LEVEL SECURITY;

CREATE TABLE databases (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    key text COLLATE "C" NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT databases_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT databases_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id),
    CONSTRAINT databases_workspace_id_key_key UNIQUE (workspace_id, key)
);
ALTER TABLE databases ENABLE ROW LEVEL SECURITY;

CREATE TABLE experiment_numbers (
    workspace_id text COLLATE "C" NOT NULL,
    last bigint NOT NULL,
    CONSTRAINT experiment_numbers_pkey PRIMARY KEY (workspace_id),
    CONSTRAINT experiment_numbers_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE experiment_numbers ENABLE ROW LEVEL SECURITY;

CREATE TABLE experiment_tags (
    workspace_id text COLLATE "C" NOT NULL,
    experiment bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    CONSTRAINT experiment_tags_pkey PRIMARY KEY (workspace_id, experiment, key),
    CONSTRAINT experiment_tags_workspace_id_experiment_fkey FOREIGN KEY (workspace_id, experiment) REFERENCES experiments(workspace_id, number) ON DELETE CASCADE
);
ALTER TABLE experiment_tags ENABLE ROW LEVEL SECURITY;

CREATE TABLE experiments (
    workspace_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    name text NOT NULL,
    artifact_location text DEFAULT ''::text NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT experiments_pkey PRIMARY KEY (workspace_id, number),
    CONSTRAINT experiments_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id),
    CONSTRAINT experiments_workspace_id_name_key UNIQUE (workspace_id, name)
);
ALTER TABLE experiments ENABLE ROW LEVEL SECURITY;

CREATE TABLE files (
    workspace_id text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    data bytea NOT NULL,
    CONSTRAINT files_pkey PRIMARY KEY (workspace_id, hash),
    CONSTRAINT files_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE files ENABLE ROW LEVEL SECURITY;

CREATE TABLE idempotency_keys (
    workspace_id text COLLATE "C" NOT NULL,
    actor text NOT NULL,
    key text NOT NULL,
    hash bytea NOT NULL,
    resource text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (workspace_id, actor, key),
    CONSTRAINT idempotency_keys_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;

CREATE TABLE invitations (
    workspace_id text COLLATE "C" NOT NULL,
    token_hash bytea NOT NULL,
    email text,
    role text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone,
    CONSTRAINT invitations_pkey PRIMARY KEY (workspace_id, token_hash),
    CONSTRAINT invitations_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'editor'::text, 'admin'::text]))),
    CONSTRAINT invitations_token_hash_key UNIQUE (token_hash),
    CONSTRAINT invitations_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE invitations ENABLE ROW LEVEL SECURITY;

CREATE TABLE jobs (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    description text NOT NULL,
    spec jsonb NOT NULL,
    spec_size integer GENERATED ALWAYS AS (octet_length((spec)::text)) STORED,
    cron text,
    time_zone text,
    paused boolean DEFAULT false NOT NULL,
    next_at timestamp with time zone,
    waiting_since timestamp with time zone,
    missed integer DEFAULT 0 NOT NULL,
    last_missed_at timestamp with time zone,
    sample boolean DEFAULT false NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT jobs_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT jobs_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;

CREATE TABLE lake_answers (
    workspace_id text COLLATE "C" NOT NULL,
    actor text NOT NULL,
    key text NOT NULL,
    hash bytea NOT NULL,
    body jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT lake_answers_pkey PRIMARY KEY (workspace_id, actor, key),
    CONSTRAINT lake_answers_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE lake_answers ENABLE ROW LEVEL SECURITY;

CREATE TABLE lake_erasures (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    table_id text COLLATE "C" NOT NULL,
    list text COLLATE "C" NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    next_at timestamp with time zone NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    CONSTRAINT lake_erasures_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT lake_erasures_workspace_id_table_id_fkey FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables(workspace_id, id) ON DELETE CASCADE
);
ALTER TABLE lake_erasures ENABLE ROW LEVEL SECURITY;

CREATE TABLE lake_locations (
    workspace_id text COLLATE "C" NOT NULL,
    location text COLLATE "C" NOT NULL,
    table_id text COLLATE "C" NOT NULL,
    property boolean DEFAULT false NOT NULL,
    CONSTRAINT lake_locations_owner FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables(workspace_id, id) ON DELETE CASCADE DEFERRABLE,
    CONSTRAINT lake_locations_pkey PRIMARY KEY (workspace_id, location)
);
ALTER TABLE lake_locations ENABLE ROW LEVEL SECURITY;

CREATE TABLE lake_schemas (
    workspace_id text COLLATE "C" NOT NULL,
    database_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    parent_key text COLLATE "C" NOT NULL,
    name text NOT NULL,
    properties jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT lake_schemas_pkey PRIMARY KEY (workspace_id, database_id, key),
    CONSTRAINT lake_schemas_workspace_id_database_id_fkey FOREIGN KEY (workspace_id, database_id) REFERENCES databases(workspace_id, id)
);
ALTER TABLE lake_schemas ENABLE ROW LEVEL SECURITY;

CREATE TABLE lake_stages (
    workspace_id text COLLATE "C" NOT NULL,
    location text COLLATE "C" NOT NULL,
    staged_at timestamp with time zone NOT NULL,
    CONSTRAINT lake_stages_pkey PRIMARY KEY (workspace_id, location),
    CONSTRAINT lake_stages_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE lake_stages ENABLE ROW LEVEL SECURITY;

CREATE TABLE lake_tables (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    database_id text COLLATE "C" NOT NULL,
    schema text NOT NULL,
    schema_key text COLLATE "C" NOT NULL,
    name text NOT NULL,
    name_key text COLLATE "C" NOT NULL,
    uuid text NOT NULL,
    location text COLLATE "C" NOT NULL,
    metadata_location text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    format_version integer NOT NULL,
    registered boolean NOT NULL,
    snapshot_id bigint,
    snapshot_at timestamp with time zone,
    operation text NOT NULL,
    row_count bigint,
    data_bytes bigint,
    data_files bigint,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL,
    updated_by_kind text NOT NULL,
    updated_by_id text NOT NULL,
    updated_by_name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    dropped_at timestamp with time zone,
    purge boolean DEFAULT false NOT NULL,
    purge_after timestamp with time zone,
    purge_next timestamp with time zone,
    purge_failures integer DEFAULT 0 NOT NULL,
    delete_files bigint,
    deleted_rows bigint,
    snapshots bigint,
    expirable_at timestamp with time zone,
    CONSTRAINT lake_tables_kind_check CHECK ((kind = ANY (ARRAY['table'::text, 'view'::text]))),
    CONSTRAINT lake_tables_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT lake_tables_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE lake_tables ENABLE ROW LEVEL SECURITY;

CREATE TABLE lake_turns (
    workspace_id text COLLATE "C" NOT NULL,
    table_id text COLLATE "C" NOT NULL,
    writer text COLLATE "C" NOT NULL,
    lost integer NOT NULL,
    lost_at timestamp with time zone NOT NULL,
    until timestamp with time zone,
    CONSTRAINT lake_turns_pkey PRIMARY KEY (workspace_id, table_id, writer),
    CONSTRAINT lake_turns_workspace_id_table_id_fkey FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables(workspace_id, id) ON DELETE CASCADE
);
ALTER TABLE lake_turns ENABLE ROW LEVEL SECURITY;

CREATE TABLE lineage (
    workspace_id text COLLATE "C" NOT NULL,
    actor_kind text COLLATE "C" NOT NULL,
    actor_id text COLLATE "C" NOT NULL,
    actor_name text NOT NULL,
    direction text NOT NULL,
    table_id text COLLATE "C" NOT NULL,
    snapshot_id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    database text NOT NULL,
    schema text NOT NULL,
    name text NOT NULL,
    columns text[],
    run_id text COLLATE "C" DEFAULT ''::text NOT NULL,
    task_key text COLLATE "C" DEFAULT ''::text NOT NULL,
    process text COLLATE "C" DEFAULT ''::text NOT NULL,
    adhoc boolean DEFAULT false NOT NULL,
    table_key text COLLATE "C" DEFAULT ''::text NOT NULL,
    source text COLLATE "C" DEFAULT ''::text NOT NULL,
    CONSTRAINT lineage_direction_check CHECK ((direction = ANY (ARRAY['read'::text, 'written'::text]))),
    CONSTRAINT lineage_pkey PRIMARY KEY (workspace_id, actor_kind, actor_id, direction, table_id, snapshot_id),
    CONSTRAINT lineage_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE lineage ENABLE ROW LEVEL SECURITY;

CREATE TABLE lineage_externals (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT lineage_externals_kind_check CHECK ((kind = ANY (ARRAY['dataset'::text, 'job'::text]))),
    CONSTRAINT lineage_externals_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT lineage_externals_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE lineage_externals ENABLE ROW LEVEL SECURITY;

CREATE TABLE lineage_outbox (
    workspace_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    subject_id text COLLATE "C" NOT NULL,
    status text NOT NULL,
    at timestamp with time zone NOT NULL,
    CONSTRAINT lineage_outbox_kind_check CHECK ((kind = ANY (ARRAY['run'::text, 'attempt'::text, 'statement'::text]))),
    CONSTRAINT lineage_outbox_pkey PRIMARY KEY (workspace_id, seq),
    CONSTRAINT lineage_outbox_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE lineage_outbox ENABLE ROW LEVEL SECURITY;

CREATE TABLE lineage_receiver (
    one boolean DEFAULT true NOT NULL,
    wanted_until timestamp with time zone NOT NULL,
    CONSTRAINT lineage_receiver_one_check CHECK (one),
    CONSTRAINT lineage_receiver_pkey PRIMARY KEY (one)
);

CREATE TABLE lineage_retracted (
    workspace_id text COLLATE "C" NOT NULL,
    actor_kind text COLLATE "C" NOT NULL,
    actor_id text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT lineage_retracted_pkey PRIMARY KEY (workspace_id, actor_kind, actor_id, source),
    CONSTRAINT lineage_retracted_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE lineage_retracted ENABLE ROW LEVEL SECURITY;

CREATE TABLE log_chunks (
    workspace_id text COLLATE "C" NOT NULL,
    attempt_id text COLLATE "C" NOT NULL,
    start bigint NOT NULL,
    stream smallint NOT NULL,
    first_line bigint NOT NULL,
    next_line bigint NOT NULL,
    emitted_at timestamp with time zone NOT NULL,
    data bytea STORAGE external NOT NULL,
    CONSTRAINT log_chunks_pkey PRIMARY KEY (workspace_id, attempt_id, start)
) PARTITION BY RANGE (attempt_id);
ALTER TABLE log_chunks ENABLE ROW LEVEL SECURITY;

CREATE TABLE log_segments (
    workspace_id text COLLATE "C" NOT NULL,
    attempt_id text COLLATE "C" NOT NULL,
    start bigint NOT NULL,
    stop bigint NOT NULL,
    first_line bigint NOT NULL,
    next_line bigint NOT NULL,
    object_key text NOT NULL,
    size bigint NOT NULL,
    CONSTRAINT log_segments_pkey PRIMARY KEY (workspace_id, attempt_id, start),
    CONSTRAINT log_segments_workspace_id_attempt_id_fkey FOREIGN KEY (workspace_id, attempt_id) REFERENCES attempts(workspace_id, id) ON DELETE CASCADE
);
ALTER TABLE log_segments ENABLE ROW LEVEL SECURITY;

CREATE TABLE machine_metrics (
    workspace_id text COLLATE "C" NOT NULL,
    machine_id text COLLATE "C" NOT NULL,
    slot integer NOT NULL,
    at timestamp with time zone NOT NULL,
    cpu real NOT NULL,
    cores real NOT NULL,
    memory bigint NOT NULL,
    memory_total bigint NOT NULL,
    disk bigint NOT NULL,
    disk_total bigint NOT NULL,
    gpus jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT machine_metrics_pkey PRIMARY KEY (workspace_id, machine_id, slot),
    CONSTRAINT machine_metrics_workspace_id_machine_id_fkey FOREIGN KEY (workspace_id, machine_id) REFERENCES machines(workspace_id, id) ON DELETE CASCADE
);
ALTER TABLE machine_metrics ENABLE ROW LEVEL SECURITY;

CREATE TABLE machines (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    flavor text NOT NULL,
    provider text NOT NULL,
    region text NOT NULL,
    image text DEFAULT ''::text NOT NULL,
    image_ref text DEFAULT ''::text NOT NULL,
    auto_stop text NOT NULL,
    slots integer DEFAULT 0 NOT NULL,
    write_engine text DEFAULT ''::text NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    host text DEFAULT ''::text NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone,
    desired text DEFAULT 'stopped'::text NOT NULL,
    state text DEFAULT 'stopped'::text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    state_since timestamp with time zone NOT NULL,
    incarnation integer DEFAULT 0 NOT NULL,
    restarts integer DEFAULT 0 NOT NULL,
    made boolean DEFAULT false NOT NULL,
    released boolean DEFAULT true NOT NULL,
    idle_since timestamp with time zone,
    held_at timestamp with time zone,
    due_at timestamp with time zone,
    nodes integer DEFAULT 1 NOT NULL,
    trino_start text DEFAULT ''::text NOT NULL,
    changed xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT machines_auto_stop_check CHECK ((auto_stop = ANY (ARRAY['30m'::text, '1h'::text, '2h'::text, 'never'::text]))),
    CONSTRAINT machines_desired_check CHECK ((desired = ANY (ARRAY['stopped'::text, 'running'::text]))),
    CONSTRAINT machines_kind_check CHECK ((kind = ANY (ARRAY['compute'::text, 'warehouse'::text]))),
    CONSTRAINT machines_nodes_check CHECK (((nodes >= 1) AND (nodes <= 16))),
    CONSTRAINT machines_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT machines_state_check CHECK ((state = ANY (ARRAY['stopped'::text, 'starting'::text, 'running'::text, 'stopping'::text, 'failed'::text]))),
    CONSTRAINT machines_trino_start_check CHECK ((trino_start = ANY (ARRAY[''::text, 'first_write'::text, 'with_warehouse'::text]))),
    CONSTRAINT machines_workspace_id_agent_id_fkey FOREIGN KEY (workspace_id, agent_id) REFERENCES agents(workspace_id, id),
    CONSTRAINT machines_workspace_id_agent_id_key UNIQUE (workspace_id, agent_id),
    CONSTRAINT machines_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id),
    CONSTRAINT machines_workspace_id_kind_name_key UNIQUE (workspace_id, kind, name)
);
ALTER TABLE machines ENABLE ROW LEVEL SECURITY;

CREATE TABLE maintenance_policies (
    workspace_id text COLLATE "C" NOT NULL,
    subject_id text COLLATE "C" NOT NULL,
    database_id text COLLATE "C",
    table_id text COLLATE "C",
    policy jsonb DEFAULT '{}'::jsonb NOT NULL,
    next_at timestamp with time zone,
    sweep_after text COLLATE "C" DEFAULT ''::text NOT NULL,
    CONSTRAINT maintenance_policies_check CHECK ((subject_id = (COALESCE(database_id, ''::text) || COALESCE(table_id, ''::text)))),
    CONSTRAINT maintenance_policies_pkey PRIMARY KEY (workspace_id, subject_id),
    CONSTRAINT maintenance_policies_workspace_id_database_id_fkey FOREIGN KEY (workspace_id, database_id) REFERENCES databases(workspace_id, id) ON DELETE CASCADE,
    CONSTRAINT maintenance_policies_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id),
    CONSTRAINT maintenance_policies_workspace_id_table_id_fkey FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables(workspace_id, id) ON DELETE CASCADE
);
ALTER TABLE maintenance_policies ENABLE ROW LEVEL SECURITY;

CREATE TABLE maintenance_runs (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    table_id text COLLATE "C" NOT NULL,
    database_id text COLLATE "C" NOT NULL,
    database text NOT NULL,
    schema text NOT NULL,
    name text NOT NULL,
    run_trigger text NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    state text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    operations jsonb DEFAULT '[]'::jsonb NOT NULL,
    finished_at timestamp with time zone,
    changed xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT maintenance_runs_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT maintenance_runs_run_trigger_check CHECK ((run_trigger = ANY (ARRAY['schedule'::text, 'manual'::text]))),
    CONSTRAINT maintenance_runs_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'skipped'::text]))),
    CONSTRAINT maintenance_runs_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE maintenance_runs ENABLE ROW LEVEL SECURITY;

CREATE TABLE maintenance_tables (
    workspace_id text COLLATE "C" NOT NULL,
    table_id text COLLATE "C" NOT NULL,
    compacted_at timestamp with time zone,
    compacted_files bigint NOT NULL,
    compacted_deletes bigint NOT NULL,
    expired_at timestamp with time zone,
    cleaned_at timestamp with time zone,
    cleaned_version integer NOT NULL,
    expired_snapshots bigint DEFAULT 0 NOT NULL,
    CONSTRAINT maintenance_tables_pkey PRIMARY KEY (workspace_id, table_id),
    CONSTRAINT maintenance_tables_workspace_id_table_id_fkey FOREIGN KEY (workspace_id, table_id) REFERENCES lake_tables(workspace_id, id) ON DELETE CASCADE
);
ALTER TABLE maintenance_tables ENABLE ROW LEVEL SECURITY;

CREATE TABLE members (
    workspace_id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    role text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    accepted_at timestamp with time zone,
    CONSTRAINT members_pkey PRIMARY KEY (workspace_id, user_id),
    CONSTRAINT members_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'editor'::text, 'admin'::text]))),
    CONSTRAINT members_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id),
    CONSTRAINT members_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE members ENABLE ROW LEVEL SECURITY;

CREATE TABLE prices (
    provider text NOT NULL,
    region text NOT NULL,
    flavor text NOT NULL,
    effective_from timestamp with time zone NOT NULL,
    hourly numeric(18,6) NOT NULL,
    currency text NOT NULL,
    CONSTRAINT prices_hourly_check CHECK ((hourly >= (0)::numeric)),
    CONSTRAINT prices_pkey PRIMARY KEY (provider, region, flavor, effective_from)
);

CREATE TABLE providers (
    workspace_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    region text NOT NULL,
    role text NOT NULL,
    external_id text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT providers_pkey PRIMARY KEY (workspace_id),
    CONSTRAINT providers_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE providers ENABLE ROW LEVEL SECURITY;

CREATE TABLE quotas (
    workspace_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    value bigint,
    CONSTRAINT quotas_pkey PRIMARY KEY (workspace_id, name),
    CONSTRAINT quotas_value_check CHECK ((value >= 0)),
    CONSTRAINT quotas_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE quotas ENABLE ROW LEVEL SECURITY;

CREATE TABLE replicas (
    id text NOT NULL,
    url text NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    CONSTRAINT replicas_pkey PRIMARY KEY (id)
);

CREATE TABLE runs (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    job_name text NOT NULL,
    spec jsonb NOT NULL,
    spec_size integer GENERATED ALWAYS AS (octet_length((spec)::text)) STORED,
    task_count integer GENERATED ALWAYS AS (COALESCE(jsonb_array_length((spec -> 'tasks'::text)), 0)) STORED,
    max_concurrent_runs integer GENERATED ALWAYS AS (COALESCE(((spec ->> 'max_concurrent_runs'::text))::integer, 0)) STORED,
    parameters jsonb NOT NULL,
    parameters_size integer GENERATED ALWAYS AS (octet_length((parameters)::text)) STORED,
    status text NOT NULL,
    run_trigger text NOT NULL,
    started_by_kind text NOT NULL,
    started_by_id text NOT NULL,
    started_by_name text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    admitted boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    changed xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT runs_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT runs_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'running'::text, 'success'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT runs_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;

CREATE TABLE sessions (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    secret_hash bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT sessions_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT sessions_secret_hash_key UNIQUE (secret_hash),
    CONSTRAINT sessions_workspace_id_user_id_fkey FOREIGN KEY (workspace_id, user_id) REFERENCES members(workspace_id, user_id) ON DELETE CASCADE
);
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;

CREATE TABLE signing_keys (
    id text NOT NULL,
    secret bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT signing_keys_pkey PRIMARY KEY (id)
);

CREATE TABLE statements (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    warehouse_id text COLLATE "C" NOT NULL,
    query text NOT NULL,
    parameters jsonb DEFAULT '[]'::jsonb NOT NULL,
    database_name text NOT NULL,
    schema_name text NOT NULL,
    requested_engine text DEFAULT ''::text NOT NULL,
    row_limit bigint DEFAULT 0 NOT NULL,
    byte_limit bigint DEFAULT 0 NOT NULL,
    timeout_ms bigint DEFAULT 0 NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL,
    role text NOT NULL,
    run_id text COLLATE "C" DEFAULT ''::text NOT NULL,
    task_key text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    state text NOT NULL,
    message text DEFAULT ''::text NOT NULL,
    progress real DEFAULT '-1'::integer NOT NULL,
    kind text DEFAULT ''::text NOT NULL,
    write boolean DEFAULT false NOT NULL,
    engine text DEFAULT ''::text NOT NULL,
    routing_reason text DEFAULT ''::text NOT NULL,
    fault text DEFAULT ''::text NOT NULL,
    failure text DEFAULT ''::text NOT NULL,
    failure_line integer DEFAULT 0 NOT NULL,
    failure_column integer DEFAULT 0 NOT NULL,
    schema_message bytea,
    rows bigint DEFAULT 0 NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL,
    scanned bigint DEFAULT 0 NOT NULL,
    truncated boolean DEFAULT false NOT NULL,
    chunks jsonb DEFAULT '[]'::jsonb NOT NULL,
    result bytea,
    result_until timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    replica text NOT NULL,
    lineage text DEFAULT ''::text NOT NULL,
    idempotency_key text DEFAULT ''::text NOT NULL,
    detached boolean DEFAULT false NOT NULL,
    sent boolean DEFAULT true NOT NULL,
    committed boolean DEFAULT true NOT NULL,
    purpose text DEFAULT ''::text NOT NULL,
    table_id text COLLATE "C" DEFAULT ''::text NOT NULL,
    not_before timestamp with time zone,
    changed xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT statements_lineage_check CHECK ((lineage = ANY (ARRAY[''::text, 'none'::text, 'resolved'::text, 'unresolved'::text]))),
    CONSTRAINT statements_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT statements_purpose_check CHECK ((purpose = ANY (ARRAY[''::text, 'maintenance'::text]))),
    CONSTRAINT statements_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text]))),
    CONSTRAINT statements_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE statements ENABLE ROW LEVEL SECURITY;

CREATE TABLE storages (
    workspace_id text COLLATE "C" NOT NULL,
    url text NOT NULL,
    role text NOT NULL,
    external_id text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT storages_pkey PRIMARY KEY (workspace_id),
    CONSTRAINT storages_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE storages ENABLE ROW LEVEL SECURITY;

CREATE TABLE tasks (
    workspace_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    "position" integer NOT NULL,
    status text NOT NULL,
    retry_count integer DEFAULT 0 NOT NULL,
    retry_base integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    current text COLLATE "C",
    message text DEFAULT ''::text NOT NULL,
    not_before timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    machine_id text COLLATE "C" DEFAULT ''::text NOT NULL,
    CONSTRAINT tasks_pkey PRIMARY KEY (workspace_id, run_id, key),
    CONSTRAINT tasks_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'queued'::text, 'running'::text, 'success'::text, 'failed'::text, 'cancelled'::text, 'skipped'::text]))),
    CONSTRAINT tasks_workspace_id_run_id_fkey FOREIGN KEY (workspace_id, run_id) REFERENCES runs(workspace_id, id) ON DELETE CASCADE
);
ALTER TABLE tasks ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_datasets (
    workspace_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    experiment bigint NOT NULL,
    name text NOT NULL,
    digest text NOT NULL,
    source_type text NOT NULL,
    source text NOT NULL,
    schema text NOT NULL,
    profile text NOT NULL,
    CONSTRAINT tracking_datasets_pkey PRIMARY KEY (workspace_id, number),
    CONSTRAINT tracking_datasets_workspace_id_experiment_fkey FOREIGN KEY (workspace_id, experiment) REFERENCES experiments(workspace_id, number) ON DELETE CASCADE,
    CONSTRAINT tracking_datasets_workspace_id_experiment_name_digest_key UNIQUE (workspace_id, experiment, name, digest)
);
ALTER TABLE tracking_datasets ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_inputs (
    workspace_id text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    dataset bigint NOT NULL,
    tags jsonb NOT NULL,
    CONSTRAINT tracking_inputs_pkey PRIMARY KEY (workspace_id, run, dataset),
    CONSTRAINT tracking_inputs_workspace_id_dataset_fkey FOREIGN KEY (workspace_id, dataset) REFERENCES tracking_datasets(workspace_id, number) ON DELETE CASCADE,
    CONSTRAINT tracking_inputs_workspace_id_run_fkey FOREIGN KEY (workspace_id, run) REFERENCES tracking_runs(workspace_id, number) ON DELETE CASCADE
);
ALTER TABLE tracking_inputs ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_keys (
    workspace_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    CONSTRAINT tracking_keys_pkey PRIMARY KEY (workspace_id, number),
    CONSTRAINT tracking_keys_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id),
    CONSTRAINT tracking_keys_workspace_id_key_key UNIQUE (workspace_id, key)
);
ALTER TABLE tracking_keys ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_metrics (
    workspace_id text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    key bigint NOT NULL,
    step bigint NOT NULL,
    at bigint NOT NULL,
    value double precision NOT NULL,
    points bigint NOT NULL,
    summarized_at bigint,
    summarized_step bigint,
    summarized_value double precision,
    CONSTRAINT tracking_metrics_pkey PRIMARY KEY (workspace_id, run, key)
);
ALTER TABLE tracking_metrics ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_parameters (
    workspace_id text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    CONSTRAINT tracking_parameters_pkey PRIMARY KEY (workspace_id, run, key),
    CONSTRAINT tracking_parameters_workspace_id_run_fkey FOREIGN KEY (workspace_id, run) REFERENCES tracking_runs(workspace_id, number) ON DELETE CASCADE
);
ALTER TABLE tracking_parameters ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_points (
    workspace_id text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    key bigint NOT NULL,
    at bigint NOT NULL,
    step bigint NOT NULL,
    value double precision NOT NULL,
    CONSTRAINT tracking_points_pkey PRIMARY KEY (workspace_id, run, key, at, step, value)
) PARTITION BY RANGE (run);
ALTER TABLE tracking_points ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_runs (
    workspace_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    experiment bigint NOT NULL,
    name text NOT NULL,
    state text NOT NULL,
    user_name text NOT NULL,
    created_by_kind text NOT NULL,
    created_by_id text NOT NULL,
    created_by_name text NOT NULL,
    job_run_id text COLLATE "C" DEFAULT ''::text NOT NULL,
    task_key text DEFAULT ''::text NOT NULL,
    attempt_id text COLLATE "C" DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    deleted_at timestamp with time zone,
    changed xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT tracking_runs_pkey PRIMARY KEY (workspace_id, id),
    CONSTRAINT tracking_runs_state_check CHECK ((state = ANY (ARRAY['scheduled'::text, 'running'::text, 'finished'::text, 'failed'::text, 'killed'::text]))),
    CONSTRAINT tracking_runs_workspace_id_experiment_fkey FOREIGN KEY (workspace_id, experiment) REFERENCES experiments(workspace_id, number),
    CONSTRAINT tracking_runs_workspace_id_number_key UNIQUE (workspace_id, number)
);
ALTER TABLE tracking_runs ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_summaries (
    workspace_id text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    key bigint NOT NULL,
    points integer NOT NULL,
    first_at bigint NOT NULL,
    first_step bigint NOT NULL,
    first_value double precision NOT NULL,
    last_at bigint NOT NULL,
    last_step bigint NOT NULL,
    last_value double precision NOT NULL,
    low_at bigint NOT NULL,
    low_step bigint NOT NULL,
    low_value double precision NOT NULL,
    high_at bigint NOT NULL,
    high_step bigint NOT NULL,
    high_value double precision NOT NULL,
    odd_at bigint,
    odd_step bigint,
    odd_value double precision,
    CONSTRAINT tracking_summaries_pkey PRIMARY KEY (workspace_id, run, key, last_at, last_step, last_value)
);
ALTER TABLE tracking_summaries ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_tags (
    workspace_id text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    CONSTRAINT tracking_tags_pkey PRIMARY KEY (workspace_id, run, key),
    CONSTRAINT tracking_tags_workspace_id_run_fkey FOREIGN KEY (workspace_id, run) REFERENCES tracking_runs(workspace_id, number) ON DELETE CASCADE
);
ALTER TABLE tracking_tags ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_unsummarized (
    workspace_id text COLLATE "C" NOT NULL,
    run bigint NOT NULL,
    key bigint NOT NULL,
    since bigint,
    due_at timestamp with time zone NOT NULL,
    CONSTRAINT tracking_unsummarized_pkey PRIMARY KEY (workspace_id, run, key)
);
ALTER TABLE tracking_unsummarized ENABLE ROW LEVEL SECURITY;

CREATE TABLE tracking_usage (
    workspace_id text COLLATE "C" NOT NULL,
    part integer NOT NULL,
    points bigint NOT NULL,
    CONSTRAINT tracking_usage_pkey PRIMARY KEY (workspace_id, part),
    CONSTRAINT tracking_usage_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(workspace_id)
);
ALTER TABLE tracking_usage ENABLE ROW LEVEL SECURITY;

CREATE TABLE users (
    id text COLLATE "C" NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    password_hash text,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT users_email_key UNIQUE (email),
    CONSTRAINT users_pkey PRIMARY KEY (id)
);
ALTER TABLE users ENABLE ROW LEVEL SECURITY;

CREATE TABLE workspaces (
    workspace_id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    sample_due boolean DEFAULT false NOT NULL,
    CONSTRAINT workspaces_name_key UNIQUE (name),
    CONSTRAINT workspaces_pkey PRIMARY KEY (workspace_id)
);
ALTER TABLE workspaces ENABLE ROW LEVEL SECURITY;

CREATE INDEX api_keys_maker ON public.api_keys USING btree (workspace_id, created_by, id);

CREATE INDEX attempts_agent ON public.attempts USING btree (workspace_id, agent_id) WHERE (status = ANY (ARRAY['starting'::text, 'running'::text]));

CREATE UNIQUE INDEX attempts_alive ON public.attempts USING btree (workspace_id, run_id, task_key) WHERE (status = ANY (ARRAY['starting'::text, 'running'::text]));

CREATE INDEX attempts_unsealed ON public.attempts USING btree (id) WHERE (NOT log_sealed);

CREATE INDEX experiments_created ON public.experiments USING btree (workspace_id, created_at, number);

CREATE INDEX experiments_deleted ON public.experiments USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);

CREATE INDEX idempotency_keys_age ON public.idempotency_keys USING btree (created_at);

CREATE INDEX jobs_due ON public.jobs USING btree (LEAST(next_at, waiting_since)) WHERE ((next_at IS NOT NULL) OR (waiting_since IS NOT NULL));

CREATE INDEX lake_answers_age ON public.lake_answers USING btree (created_at);

CREATE INDEX lake_erasures_due ON public.lake_erasures USING btree (next_at);

CREATE INDEX lake_erasures_table ON public.lake_erasures USING btree (workspace_id, table_id);

CREATE INDEX lake_locations_table ON public.lake_locations USING btree (workspace_id, table_id);

CREATE INDEX lake_schemas_parent ON public.lake_schemas USING btree (workspace_id, database_id, parent_key, key);

CREATE INDEX lake_stages_age ON public.lake_stages USING btree (staged_at);

CREATE INDEX lake_tables_dropped ON public.lake_tables USING btree (workspace_id, database_id, kind, id) WHERE (dropped_at IS NOT NULL);

CREATE INDEX lake_tables_due ON public.lake_tables USING btree (purge_next) WHERE (dropped_at IS NOT NULL);

CREATE INDEX lake_tables_list ON public.lake_tables USING btree (workspace_id, database_id, kind, id) WHERE (dropped_at IS NULL);

CREATE UNIQUE INDEX lake_tables_live ON public.lake_tables USING btree (workspace_id, database_id, schema_key, name_key) WHERE (dropped_at IS NULL);

CREATE INDEX lake_turns_age ON public.lake_turns USING btree (lost_at);

CREATE INDEX lineage_adhoc ON public.lineage USING btree (workspace_id, table_id, direction, at) WHERE adhoc;

CREATE INDEX lineage_by_name ON public.lineage USING btree (workspace_id, table_key, at);

CREATE INDEX lineage_by_process ON public.lineage USING btree (workspace_id, process, direction, table_id, at);

CREATE INDEX lineage_by_run ON public.lineage USING btree (workspace_id, run_id, at) WHERE (run_id <> ''::text);

CREATE INDEX lineage_by_table ON public.lineage USING btree (workspace_id, table_id, direction, process, at) WHERE (NOT adhoc);

CREATE INDEX lineage_outbox_seq ON public.lineage_outbox USING btree (seq);

CREATE INDEX lineage_table ON public.lineage USING btree (workspace_id, table_id, at);

CREATE INDEX machines_due ON public.machines USING btree (due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX maintenance_policies_database ON public.maintenance_policies USING btree (workspace_id, database_id) WHERE (database_id IS NOT NULL);

CREATE INDEX maintenance_policies_due ON public.maintenance_policies USING btree (next_at) WHERE (next_at IS NOT NULL);

CREATE INDEX maintenance_policies_table ON public.maintenance_policies USING btree (workspace_id, table_id) WHERE (table_id IS NOT NULL);

CREATE INDEX maintenance_runs_changed ON public.maintenance_runs USING btree (workspace_id, changed, id);

CREATE INDEX maintenance_runs_database ON public.maintenance_runs USING btree (workspace_id, database_id, id);

CREATE UNIQUE INDEX maintenance_runs_open ON public.maintenance_runs USING btree (workspace_id, table_id) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text]));

CREATE INDEX maintenance_runs_over ON public.maintenance_runs USING btree (finished_at) WHERE (finished_at IS NOT NULL);

CREATE INDEX maintenance_runs_running ON public.maintenance_runs USING btree (workspace_id) WHERE (state = 'running'::text);

CREATE INDEX maintenance_runs_table ON public.maintenance_runs USING btree (workspace_id, table_id, id);

CREATE INDEX members_user ON public.members USING btree (user_id);

CREATE INDEX runs_changed ON public.runs USING btree (workspace_id, changed, id);

CREATE INDEX runs_finished ON public.runs USING btree (workspace_id, finished_at) WHERE (finished_at IS NOT NULL);

CREATE INDEX runs_held ON public.runs USING btree (id) WHERE ((status = 'pending'::text) AND (NOT admitted));

CREATE INDEX runs_job ON public.runs USING btree (workspace_id, job_id, id);

CREATE INDEX runs_job_status ON public.runs USING btree (workspace_id, job_id, status, id);

CREATE INDEX runs_status ON public.runs USING btree (workspace_id, status, id);

CREATE INDEX sessions_user ON public.sessions USING btree (workspace_id, user_id);

CREATE INDEX statements_changed ON public.statements USING btree (workspace_id, changed, id);

CREATE INDEX statements_expired ON public.statements USING btree (result_until) WHERE (chunks <> '[]'::jsonb);

CREATE INDEX statements_held ON public.statements USING btree (workspace_id, cancel_requested_at, not_before, id) WHERE ((state = 'queued'::text) AND (warehouse_id = ''::text));

CREATE UNIQUE INDEX statements_id ON public.statements USING btree (id);

CREATE INDEX statements_lineage ON public.statements USING btree (workspace_id, finished_at, lineage) WHERE (lineage <> ''::text);

CREATE INDEX statements_live ON public.statements USING btree (workspace_id, warehouse_id) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text]));

CREATE INDEX statements_purpose ON public.statements USING btree (workspace_id, purpose, id);

CREATE INDEX statements_replica ON public.statements USING btree (replica) WHERE ((state = ANY (ARRAY['queued'::text, 'running'::text])) AND (warehouse_id <> ''::text));

CREATE INDEX statements_run ON public.statements USING btree (workspace_id, run_id, id) WHERE (run_id <> ''::text);

CREATE INDEX statements_warehouse ON public.statements USING btree (workspace_id, warehouse_id, purpose, id);

CREATE INDEX tasks_machine ON public.tasks USING btree (workspace_id, machine_id) WHERE ((status = 'queued'::text) AND (current IS NULL) AND (machine_id <> ''::text));

CREATE INDEX tasks_ready ON public.tasks USING btree (run_id, not_before) WHERE ((status = 'queued'::text) AND (current IS NULL));

CREATE INDEX tasks_retry ON public.tasks USING btree (not_before) WHERE ((status = 'queued'::text) AND (current IS NULL) AND (not_before IS NOT NULL));

CREATE INDEX tracking_runs_changed ON public.tracking_runs USING btree (workspace_id, changed, id);

CREATE INDEX tracking_runs_deleted ON public.tracking_runs USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);

CREATE INDEX tracking_runs_job ON public.tracking_runs USING btree (workspace_id, job_run_id, id) WHERE (job_run_id <> ''::text);

CREATE INDEX tracking_runs_live ON public.tracking_runs USING btree (attempt_id) WHERE ((attempt_id <> ''::text) AND (state = ANY (ARRAY['scheduled'::text, 'running'::text])));

CREATE UNIQUE INDEX tracking_runs_number ON public.tracking_runs USING btree (number);

CREATE INDEX tracking_runs_started ON public.tracking_runs USING btree (workspace_id, experiment, started_at DESC, id);

CREATE POLICY app ON agents FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON agents FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON api_keys FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON api_keys FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON attempts FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON attempts FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON audit_events FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON audit_events FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON databases FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON databases FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON experiment_numbers FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON experiment_numbers FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON experiment_tags FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON experiments FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON experiments FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON files FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON files FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON idempotency_keys FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON idempotency_keys FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON invitations FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON invitations FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON jobs FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON jobs FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lake_answers FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lake_answers FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lake_erasures FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lake_erasures FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lake_locations FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lake_locations FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lake_schemas FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lake_schemas FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lake_stages FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lake_stages FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lake_tables FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lake_tables FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lake_turns FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lake_turns FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lineage FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lineage FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lineage_externals FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lineage_externals FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lineage_outbox FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lineage_outbox FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON lineage_retracted FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON lineage_retracted FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON log_chunks FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON log_chunks FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON log_segments FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON log_segments FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON machine_metrics FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON machine_metrics FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON machines FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON machines FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON maintenance_policies FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON maintenance_policies FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON maintenance_runs FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON maintenance_runs FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON maintenance_tables FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON maintenance_tables FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON members FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON members FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON providers FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON providers FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON quotas FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON quotas FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON runs FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON runs FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON sessions FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON sessions FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON statements FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON statements FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON storages FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON storages FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON tasks FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON tasks FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON tracking_datasets FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON tracking_inputs FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON tracking_keys FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON tracking_metrics FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON tracking_parameters FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON tracking_points FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON tracking_runs FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON tracking_runs FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON tracking_summaries FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON tracking_tags FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON tracking_unsummarized FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON tracking_unsummarized FOR ALL TO millpond_system USING (true);

CREATE POLICY app ON tracking_usage FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY app ON users FOR ALL TO millpond_app USING ((EXISTS ( SELECT
   FROM members m
  WHERE ((m.user_id = users.id) AND (m.workspace_id = current_workspace())))));

CREATE POLICY system ON users FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE POLICY app ON workspaces FOR ALL TO millpond_app USING ((workspace_id = current_workspace())) WITH CHECK ((workspace_id = current_workspace()));

CREATE POLICY system ON workspaces FOR ALL TO millpond_system USING (true) WITH CHECK (true);

CREATE TRIGGER changed BEFORE UPDATE ON agents FOR EACH ROW WHEN ((((((((old.name IS DISTINCT FROM new.name) OR (old.version IS DISTINCT FROM new.version)) OR (old.hostname IS DISTINCT FROM new.hostname)) OR (old.os IS DISTINCT FROM new.os)) OR (old.arch IS DISTINCT FROM new.arch)) OR (old.slots IS DISTINCT FROM new.slots)) OR (old.session IS DISTINCT FROM new.session))) EXECUTE FUNCTION mark_changed();

CREATE TRIGGER lineage_outbox AFTER UPDATE OF status ON attempts FOR EACH ROW WHEN ((old.status <> new.status)) EXECUTE FUNCTION lineage_transition('attempt');

CREATE TRIGGER lineage_seen BEFORE INSERT ON lineage FOR EACH ROW WHEN (((new.actor_kind <> 'statement'::text) AND ((new.source = ''::text) OR (new.snapshot_id <> 0)))) EXECUTE FUNCTION lineage_seen();

CREATE TRIGGER changed BEFORE UPDATE ON machines FOR EACH ROW WHEN ((((((((((((((((((old.name IS DISTINCT FROM new.name) OR (old.flavor IS DISTINCT FROM new.flavor)) OR (old.image IS DISTINCT FROM new.image)) OR (old.image_ref IS DISTINCT FROM new.image_ref)) OR (old.auto_stop IS DISTINCT FROM new.auto_stop)) OR (old.slots IS DISTINCT FROM new.slots)) OR (old.write_engine IS DISTINCT FROM new.write_engine)) OR (old.nodes IS DISTINCT FROM new.nodes)) OR (old.trino_start IS DISTINCT FROM new.trino_start)) OR (old.last_used_at IS DISTINCT FROM new.last_used_at)) OR (old.desired IS DISTINCT FROM new.desired)) OR (old.state IS DISTINCT FROM new.state)) OR (old.message IS DISTINCT FROM new.message)) OR (old.state_since IS DISTINCT FROM new.state_since)) OR (old.incarnation IS DISTINCT FROM new.incarnation)) OR (old.restarts IS DISTINCT FROM new.restarts)) OR (old.idle_since IS DISTINCT FROM new.idle_since))) EXECUTE FUNCTION mark_changed();

CREATE TRIGGER changed BEFORE UPDATE ON maintenance_runs FOR EACH ROW WHEN ((((((((old.run_trigger IS DISTINCT FROM new.run_trigger) OR (old.created_by_name IS DISTINCT FROM new.created_by_name)) OR (old.due_at IS DISTINCT FROM new.due_at)) OR (old.state IS DISTINCT FROM new.state)) OR (old.message IS DISTINCT FROM new.message)) OR (old.operations IS DISTINCT FROM new.operations)) OR (old.finished_at IS DISTINCT FROM new.finished_at))) EXECUTE FUNCTION mark_changed();

CREATE TRIGGER changed BEFORE UPDATE ON runs FOR EACH ROW WHEN ((((((old.status IS DISTINCT FROM new.status) OR (old.message IS DISTINCT FROM new.message)) OR (old.started_at IS DISTINCT FROM new.started_at)) OR (old.finished_at IS DISTINCT FROM new.finished_at)) OR (old.cancel_requested_at IS DISTINCT FROM new.cancel_requested_at))) EXECUTE FUNCTION mark_changed();

CREATE TRIGGER lineage_outbox AFTER UPDATE OF status ON runs FOR EACH ROW WHEN ((old.status <> new.status)) EXECUTE FUNCTION lineage_transition('run');

CREATE TRIGGER changed BEFORE UPDATE ON statements FOR EACH ROW WHEN ((((((((((((((((old.warehouse_id IS DISTINCT FROM new.warehouse_id) OR (old.query IS DISTINCT FROM new.query)) OR (old.not_before IS DISTINCT FROM new.not_before)) OR (old.state IS DISTINCT FROM new.state)) OR (old.message IS DISTINCT FROM new.message)) OR (old.progress IS DISTINCT FROM new.progress)) OR (old.kind IS DISTINCT FROM new.kind)) OR (old.engine IS DISTINCT FROM new.engine)) OR (old.routing_reason IS DISTINCT FROM new.routing_reason)) OR ((old.schema_message IS NULL) IS DISTINCT FROM (new.schema_message IS NULL))) OR (old.rows IS DISTINCT FROM new.rows)) OR (old.chunks IS DISTINCT FROM new.chunks)) OR (old.started_at IS DISTINCT FROM new.started_at)) OR (old.finished_at IS DISTINCT FROM new.finished_at)) OR (old.cancel_requested_at IS DISTINCT FROM new.cancel_requested_at))) EXECUTE FUNCTION mark_changed();

CREATE TRIGGER lineage_outbox AFTER UPDATE OF state ON statements FOR EACH ROW WHEN (((old.state <> new.state) AND (new.warehouse_id <> ''::text))) EXECUTE FUNCTION lineage_transition('statement');

CREATE TRIGGER maintenance_changed AFTER UPDATE ON statements FOR EACH ROW WHEN (((new.purpose = 'maintenance'::text) AND (((((((old.warehouse_id IS DISTINCT FROM new.warehouse_id) OR (old.query IS DISTINCT FROM new.query)) OR (old.not_before IS DISTINCT FROM new.not_before)) OR (old.state IS DISTINCT FROM new.state)) OR (old.failure IS DISTINCT FROM new.failure)) OR (old.started_at IS DISTINCT FROM new.started_at)) OR (old.finished_at IS DISTINCT FROM new.finished_at)))) EXECUTE FUNCTION mark_maintenance_run();

CREATE TRIGGER changed BEFORE UPDATE ON tracking_runs FOR EACH ROW WHEN (((((((old.name IS DISTINCT FROM new.name) OR (old.state IS DISTINCT FROM new.state)) OR (old.user_name IS DISTINCT FROM new.user_name)) OR (old.started_at IS DISTINCT FROM new.started_at)) OR (old.finished_at IS DISTINCT FROM new.finished_at)) OR (old.deleted_at IS DISTINCT FROM new.deleted_at))) EXECUTE FUNCTION mark_changed();

CREATE OR REPLACE FUNCTION public.create_log_partition(day date, lower_id text, upper_id text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(7236402);
    IF to_regclass(format('log_chunks_%s', to_char(day, 'YYYYMMDD'))) IS NULL THEN
        -- Attached, not created in its place: that would wait for every reader, with every writer behind it.
        EXECUTE format('CREATE TABLE log_chunks_%s (LIKE log_chunks INCLUDING STORAGE)', to_char(day, 'YYYYMMDD'));
        EXECUTE format('ALTER TABLE log_chunks_%s ENABLE ROW LEVEL SECURITY', to_char(day, 'YYYYMMDD'));
        EXECUTE format('ALTER TABLE log_chunks ATTACH PARTITION log_chunks_%s FOR VALUES FROM (%L) TO (%L)', to_char(day, 'YYYYMMDD'), lower_id, upper_id);
    END IF;
END
$function$;

CREATE OR REPLACE FUNCTION public.create_point_partition(run bigint)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE part bigint := run / 10000; name text := format('tracking_points_%s', run / 10000);
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(7236403);
    IF to_regclass(name) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE tracking_points INCLUDING STORAGE)', name);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE tracking_points ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name, part * 10000, (part + 1) * 10000);
    END IF;
END
$function$;

CREATE OR REPLACE FUNCTION public.current_workspace()
 RETURNS text
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN current_setting('app.workspace'::text, true);

CREATE OR REPLACE FUNCTION public.drop_log_partition(day date, lower_id text, upper_id text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET lock_timeout TO '500ms'
AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(7236402);
    IF to_regclass(format('log_chunks_%s', to_char(day, 'YYYYMMDD'))) IS NULL
        OR EXISTS (SELECT FROM attempts WHERE NOT log_sealed AND id COLLATE "C" >= lower_id AND id COLLATE "C" < upper_id) THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP TABLE log_chunks_%s', to_char(day, 'YYYYMMDD'));
    RETURN true;
END
$function$;

CREATE OR REPLACE FUNCTION public.drop_point_partition(part bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET lock_timeout TO '500ms'
AS $function$
DECLARE name text := format('tracking_points_%s', part); empty boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(7236403);
    IF to_regclass(name) IS NULL OR EXISTS (SELECT FROM tracking_runs WHERE number >= part * 10000 AND number < (part + 1) * 10000) THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT NOT EXISTS (SELECT FROM %I)', name) INTO empty;
    IF empty THEN
        EXECUTE format('DROP TABLE %I', name);
    END IF;
    RETURN empty;
END
$function$;

CREATE OR REPLACE FUNCTION public.ensure_user(new_id text, new_email text, new_name text, at timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE found_id text;
BEGIN
    INSERT INTO users (id, email, name, created_at) VALUES (new_id, new_email, new_name, at) ON CONFLICT (email) DO NOTHING;
    SELECT id INTO found_id FROM users WHERE email = new_email FOR UPDATE;
    RETURN found_id;
END
$function$;

CREATE OR REPLACE FUNCTION public.lineage_seen()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
    told text[];
BEGIN
    DELETE FROM lineage WHERE workspace_id = NEW.workspace_id AND actor_kind = NEW.actor_kind AND actor_id = NEW.actor_id AND direction = NEW.direction
        AND table_id = NEW.table_id AND snapshot_id = 0 AND source <> '' RETURNING columns INTO told;
    NEW.columns := COALESCE(NEW.columns, told);
    RETURN NEW;
END
$function$;

CREATE OR REPLACE FUNCTION public.lineage_transition()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'public', 'pg_temp'
AS $function$
DECLARE
    before text;
    after  text;
BEGIN
    IF NOT EXISTS (SELECT FROM lineage_receiver WHERE wanted_until > now()) THEN
        RETURN NULL;
    END IF;
    IF TG_ARGV[0] = 'statement' THEN
        before := OLD.state;
        after := NEW.state;
    ELSE
        before := OLD.status;
        after := NEW.status;
    END IF;
    IF after IN ('pending', 'starting', 'queued') THEN -- a run that is repaired
        RETURN NULL;
    END IF;
    IF before IN ('pending', 'starting', 'queued') THEN
        INSERT INTO lineage_outbox (workspace_id, kind, subject_id, status, at)
            VALUES (NEW.workspace_id, TG_ARGV[0], NEW.id, 'running', COALESCE(NEW.started_at, NEW.created_at));
    END IF;
    IF after <> 'running' THEN
        INSERT INTO lineage_outbox (workspace_id, kind, subject_id, status, at)
            VALUES (NEW.workspace_id, TG_ARGV[0], NEW.id, after, COALESCE(NEW.finished_at, now()));
    END IF;
    RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION public.mark_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    NEW.changed := pg_catalog.pg_current_xact_id();
    RETURN NEW;
END
$function$;

CREATE OR REPLACE FUNCTION public.mark_maintenance_run()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    UPDATE public.maintenance_runs SET changed = pg_catalog.pg_current_xact_id()
        WHERE workspace_id = NEW.workspace_id AND table_id = NEW.table_id AND state IN ('queued', 'running');
    RETURN NULL;
END
$function$;

GRANT INSERT, SELECT, UPDATE ON agents TO millpond_app;

GRANT INSERT, SELECT, UPDATE ON agents TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON api_keys TO millpond_app;

GRANT DELETE, SELECT, UPDATE ON api_keys TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON attempts TO millpond_app;

GRANT SELECT ON attempts TO millpond_system;

GRANT INSERT ON audit_events TO millpond_app;

GRANT INSERT ON audit_events TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON databases TO millpond_app;

GRANT INSERT, SELECT ON databases TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON experiment_numbers TO millpond_app;

GRANT INSERT, SELECT ON experiment_numbers TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON experiment_tags TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON experiments TO millpond_app;

GRANT INSERT, SELECT ON experiments TO millpond_system;

GRANT INSERT, SELECT ON files TO millpond_app;

GRANT INSERT, SELECT, UPDATE ON idempotency_keys TO millpond_app;

GRANT DELETE, SELECT ON idempotency_keys TO millpond_system;

GRANT INSERT, SELECT, UPDATE ON invitations TO millpond_app;

GRANT INSERT, SELECT, UPDATE ON invitations TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON jobs TO millpond_app;

GRANT SELECT ON jobs TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON lake_answers TO millpond_app;

GRANT DELETE, SELECT ON lake_answers TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON lake_erasures TO millpond_app;

GRANT SELECT ON lake_erasures TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON lake_locations TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON lake_schemas TO millpond_app;

GRANT INSERT, SELECT ON lake_schemas TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON lake_stages TO millpond_app;

GRANT DELETE, SELECT ON lake_stages TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON lake_tables TO millpond_app;

GRANT SELECT ON lake_tables TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON lake_turns TO millpond_app;

GRANT DELETE, SELECT ON lake_turns TO millpond_system;

GRANT DELETE, INSERT, SELECT ON lineage TO millpond_app;

GRANT INSERT, SELECT ON lineage_externals TO millpond_app;

GRANT INSERT ON lineage_outbox TO millpond_app;

GRANT DELETE, SELECT ON lineage_outbox TO millpond_system;

GRANT SELECT ON lineage_receiver TO millpond_app;

GRANT INSERT, SELECT, UPDATE ON lineage_receiver TO millpond_system;

GRANT INSERT, SELECT ON lineage_retracted TO millpond_app;

GRANT INSERT, SELECT ON log_chunks TO millpond_app;

GRANT SELECT ON log_chunks TO millpond_system;

GRANT INSERT, SELECT ON log_segments TO millpond_app;

GRANT SELECT ON log_segments TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON machine_metrics TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON machines TO millpond_app;

GRANT INSERT, SELECT ON machines TO millpond_system;

GRANT INSERT, SELECT, UPDATE ON maintenance_policies TO millpond_app;

GRANT SELECT ON maintenance_policies TO millpond_system;

GRANT INSERT, SELECT, UPDATE ON maintenance_runs TO millpond_app;

GRANT DELETE, SELECT ON maintenance_runs TO millpond_system;

GRANT INSERT, SELECT, UPDATE ON maintenance_tables TO millpond_app;

GRANT DELETE, SELECT ON members TO millpond_app;

GRANT INSERT, SELECT, UPDATE ON members TO millpond_system;

GRANT SELECT ON prices TO millpond_app;

GRANT INSERT, SELECT ON prices TO millpond_system;

GRANT INSERT, SELECT, UPDATE ON providers TO millpond_app;

GRANT INSERT, SELECT, UPDATE ON quotas TO millpond_app;

GRANT INSERT, SELECT ON quotas TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON replicas TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON runs TO millpond_app;

GRANT SELECT ON runs TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON sessions TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON sessions TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON signing_keys TO millpond_system;

GRANT INSERT, SELECT, UPDATE ON statements TO millpond_app;

GRANT SELECT ON statements TO millpond_system;

GRANT INSERT, SELECT, UPDATE ON storages TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON tasks TO millpond_app;

GRANT SELECT ON tasks TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_datasets TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_inputs TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_keys TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_metrics TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_parameters TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_points TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_runs TO millpond_app;

GRANT SELECT ON tracking_runs TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_summaries TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_tags TO millpond_app;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_unsummarized TO millpond_app;

GRANT SELECT ON tracking_unsummarized TO millpond_system;

GRANT DELETE, INSERT, SELECT, UPDATE ON tracking_usage TO millpond_app;

GRANT INSERT, SELECT, UPDATE ON users TO millpond_system;

GRANT SELECT ON workspaces TO millpond_app;

GRANT INSERT, SELECT ON workspaces TO millpond_system;

GRANT UPDATE (columns) ON lineage TO millpond_app;

GRANT UPDATE (state_since, idle_since, due_at) ON machines TO millpond_system;

GRANT INSERT (workspace_id, user_id, role, created_at) ON members TO millpond_app;

GRANT UPDATE (role) ON members TO millpond_app;

GRANT SELECT (id, email, name, created_at) ON users TO millpond_app;

GRANT UPDATE (sample_due) ON workspaces TO millpond_app;

GRANT EXECUTE ON FUNCTION create_log_partition TO millpond_system;

GRANT EXECUTE ON FUNCTION create_point_partition TO millpond_app;

GRANT EXECUTE ON FUNCTION create_point_partition TO millpond_system;

GRANT EXECUTE ON FUNCTION current_workspace TO PUBLIC;

GRANT EXECUTE ON FUNCTION drop_log_partition TO millpond_system;

GRANT EXECUTE ON FUNCTION drop_point_partition TO millpond_system;

GRANT EXECUTE ON FUNCTION ensure_user TO millpond_app;

GRANT USAGE ON SCHEMA public TO millpond_app;

GRANT USAGE ON SCHEMA public TO millpond_system;

ROLE millpond_app NOLOGIN;

ROLE millpond_system NOLOGIN;
