-- +goose Up

-- Charts of long histories read summaries. A summary stands for 1,024 consecutive points of a metric's
-- history, in the order of time, step and value. It has the first and the last, the lowest and the
-- highest of the finite ones, and the first that is not finite.
CREATE TABLE tracking_summaries (
    workspace_id text COLLATE "C" NOT NULL,
    run          bigint NOT NULL,
    key          bigint NOT NULL,
    points       int NOT NULL,
    first_at     bigint NOT NULL,
    first_step   bigint NOT NULL,
    first_value  double precision NOT NULL,
    last_at      bigint NOT NULL,
    last_step    bigint NOT NULL,
    last_value   double precision NOT NULL,
    low_at       bigint NOT NULL,
    low_step     bigint NOT NULL,
    low_value    double precision NOT NULL,
    high_at      bigint NOT NULL,
    high_step    bigint NOT NULL,
    high_value   double precision NOT NULL,
    odd_at       bigint,
    odd_step     bigint,
    odd_value    double precision,
    PRIMARY KEY (workspace_id, run, key, last_at, last_step, last_value)
);

-- The end of the metric's last summary; null without one.
ALTER TABLE tracking_metrics
    ADD COLUMN summarized_at    bigint,
    ADD COLUMN summarized_step  bigint,
    ADD COLUMN summarized_value double precision;

-- Metrics that have points for a new summary, or points that were logged before the end of the last
-- summary. Then summaries that end at the time since or later are not true.
CREATE TABLE tracking_unsummarized (
    workspace_id text COLLATE "C" NOT NULL,
    run          bigint NOT NULL,
    key          bigint NOT NULL,
    since        bigint, -- milliseconds since 1970
    due_at       timestamptz NOT NULL,
    PRIMARY KEY (workspace_id, run, key)
);

INSERT INTO tracking_unsummarized (workspace_id, run, key, due_at) SELECT workspace_id, run, key, now() FROM tracking_metrics WHERE points >= 2048;

-- +goose StatementBegin
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['tracking_summaries', 'tracking_unsummarized'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY app ON %I TO millpond_app USING (workspace_id = current_workspace()) WITH CHECK (workspace_id = current_workspace())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO millpond_app', t);
    END LOOP;
END
$$;
-- +goose StatementEnd
CREATE POLICY system ON tracking_unsummarized TO millpond_system USING (true);
GRANT SELECT ON tracking_unsummarized TO millpond_system;

-- +goose Down
DROP TABLE tracking_summaries, tracking_unsummarized;
ALTER TABLE tracking_metrics DROP COLUMN summarized_at, DROP COLUMN summarized_step, DROP COLUMN summarized_value;
