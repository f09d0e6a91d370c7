package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/shopspring/decimal"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

type machineRow struct {
	ID            domain.MachineID     `db:"id"`
	Kind          machine.Kind         `db:"kind"`
	Name          string               `db:"name"`
	Flavor        string               `db:"flavor"`
	Provider      machine.ProviderKind `db:"provider"`
	Region        string               `db:"region"`
	Image         string               `db:"image"`
	ImageRef      string               `db:"image_ref"`
	AutoStop      machine.AutoStop     `db:"auto_stop"`
	Slots         int                  `db:"slots"`
	WriteEngine   string               `db:"write_engine"`
	Nodes         int                  `db:"nodes"`
	TrinoStart    machine.TrinoStart   `db:"trino_start"`
	AgentID       domain.AgentID       `db:"agent_id"`
	Host          string               `db:"host"`
	CreatedByKind domain.ActorKind     `db:"created_by_kind"`
	CreatedByID   string               `db:"created_by_id"`
	CreatedByName string               `db:"created_by_name"`
	CreatedAt     time.Time            `db:"created_at"`
	LastUsedAt    sql.NullTime         `db:"last_used_at"`
	Desired       machine.State        `db:"desired"`
	State         machine.State        `db:"state"`
	Message       string               `db:"message"`
	StateSince    time.Time            `db:"state_since"`
	Incarnation   int                  `db:"incarnation"`
	Restarts      int                  `db:"restarts"`
	Made          bool                 `db:"made"`
	Released      bool                 `db:"released"`
	IdleSince     sql.NullTime         `db:"idle_since"`
	HeldAt        sql.NullTime         `db:"held_at"`
	DueAt         sql.NullTime         `db:"due_at"`
	Changed       domain.Change        `db:"changed"`
	Engines       []byte               `db:"engines"`
}

const machineColumns = `m.id, m.kind, m.name, m.flavor, m.provider, m.region, m.image, m.image_ref, m.auto_stop, m.slots, m.write_engine, m.nodes, m.trino_start,
	m.agent_id, m.host,
	m.created_by_kind, m.created_by_id, m.created_by_name, m.created_at, m.last_used_at, m.desired, m.state, m.message, m.state_since, m.incarnation,
	m.restarts, m.made, m.released, m.idle_since, m.held_at, m.due_at, m.changed, a.engines`

// selectMachines reads machines, with the engines that their agents have reported.
const selectMachines = `SELECT ` + machineColumns + ` FROM machines m JOIN agents a ON a.workspace_id = m.workspace_id AND a.id = m.agent_id
	WHERE m.workspace_id = $1 AND `

func (r machineRow) toDomain() (machine.Machine, error) {
	m := machine.Machine{
		ID: r.ID, Kind: r.Kind, Name: r.Name, Flavor: r.Flavor, Provider: r.Provider, Region: r.Region, Image: r.Image, ImageRef: r.ImageRef,
		AutoStop: r.AutoStop, Slots: r.Slots, WriteEngine: r.WriteEngine, Nodes: r.Nodes, TrinoStart: r.TrinoStart, AgentID: r.AgentID, Host: r.Host,
		CreatedBy: domain.Actor{Kind: r.CreatedByKind, ID: r.CreatedByID, Name: r.CreatedByName}, CreatedAt: r.CreatedAt.UTC(),
		LastUsedAt: timePtr(r.LastUsedAt), Desired: r.Desired, State: r.State, Message: r.Message, StateSince: r.StateSince.UTC(),
		Incarnation: r.Incarnation, Restarts: r.Restarts, Made: r.Made, Released: r.Released, IdleSince: timePtr(r.IdleSince),
		HeldAt: timePtr(r.HeldAt), DueAt: timePtr(r.DueAt), Changed: r.Changed,
	}
	var err error
	m.Engines, err = decodeEach(r.Engines, storedEngine.toDomain)
	return m, err
}

// storedEngine is the format of an element of the column engines.
type storedEngine struct {
	Name    string              `json:"name"`
	Version string              `json:"version"`
	State   machine.EngineState `json:"state,omitempty"`
	Message string              `json:"message,omitempty"`
	Nodes   int                 `json:"nodes,omitempty"`
}

func storeEngine(e machine.Engine) storedEngine { return storedEngine(e) }

func (e storedEngine) toDomain() machine.Engine { return machine.Engine(e) }

func (t *Tx) machine(ctx context.Context, missing error, where string, args ...any) (machine.Machine, error) {
	var row machineRow
	if err := t.get(ctx, &row, selectMachines+where, append([]any{t.workspace}, args...)...); err != nil {
		return machine.Machine{}, orMissing(err, missing)
	}
	return row.toDomain()
}

// Machine implements machine.Tx.
func (t *Tx) Machine(ctx context.Context, id domain.MachineID) (machine.Machine, error) {
	return t.machine(prepared(ctx), domain.NotFound("machine", id), `m.id = $2`, id)
}

// LockMachine implements machine.Tx. It locks the agent before the machine, as everywhere.
// Logs can be stored meanwhile.
func (t *Tx) LockMachine(ctx context.Context, id domain.MachineID) (machine.Machine, machine.Agent, error) {
	m, err := t.Machine(ctx, id)
	if err != nil {
		return machine.Machine{}, machine.Agent{}, err
	}
	agent, err := t.LockAgent(ctx, m.AgentID)
	if err != nil {
		return machine.Machine{}, machine.Agent{}, err
	}
	m, err = t.machine(ctx, domain.NotFound("machine", id), `m.id = $2 FOR UPDATE OF m`, id)
	return m, agent, err
}

// MachineByName implements machine.Tx.
func (t *Tx) MachineByName(ctx context.Context, kind machine.Kind, name string) (machine.Machine, error) {
	return t.machine(prepared(ctx), domain.NotFound(string(kind), name), `m.kind = $2 AND m.name = $3`, kind, name)
}

// Machines implements machine.Tx.
func (t *Tx) Machines(ctx context.Context, kind machine.Kind, after domain.MachineID, limit int) ([]machine.Machine, error) {
	return rows(ctx, t.conn, machineRow.toDomain, selectMachines+`m.kind = $2 AND m.id > $3 ORDER BY m.id LIMIT $4`, t.workspace, kind, after, limit)
}

// ChangedMachines implements machine.Tx.
func (t *Tx) ChangedMachines(ctx context.Context, kind machine.Kind, p domain.Position) ([]machine.Machine, bool, error) {
	where, args := t.changedSince(p)
	machines, err := rows(ctx, t.conn, machineRow.toDomain, selectMachines+`m.id IN (
		SELECT id FROM machines WHERE `+where+` AND kind = $5 ORDER BY changed, id LIMIT $4) ORDER BY m.changed, m.id`, append(args, kind)...)
	return machines, len(machines) == domain.MaxLimit, err
}

// MachinesByID implements machine.Tx.
func (t *Tx) MachinesByID(ctx context.Context, ids []domain.MachineID) ([]machine.Machine, error) {
	return rows(ctx, t.conn, machineRow.toDomain, selectMachines+`m.id = ANY($2)`, t.workspace, texts(ids))
}

// insertMachine adds a machine with its agent.
func insertMachine(ctx context.Context, db execer, ws domain.WorkspaceID, m machine.Machine, agent machine.Agent) error {
	err := insert(ctx, db, "agents", values{
		"workspace_id": ws, "id": agent.ID, "name": agent.Name, "token_hash": agent.TokenHash, "created_at": agent.CreatedAt, "machine_id": m.ID,
	})
	if err != nil {
		return err
	}
	return insert(ctx, db, "machines", values{
		"workspace_id": ws, "id": m.ID, "kind": m.Kind, "name": m.Name, "flavor": m.Flavor, "provider": m.Provider, "region": m.Region, "image": m.Image,
		"auto_stop": m.AutoStop, "slots": m.Slots, "write_engine": m.WriteEngine, "nodes": m.Nodes, "trino_start": m.TrinoStart, "agent_id": m.AgentID,
		"created_at": m.CreatedAt, "state_since": m.CreatedAt,
	}.actor("created_by", m.CreatedBy))
}

// InsertMachine implements machine.Tx.
func (t *Tx) InsertMachine(ctx context.Context, m machine.Machine, agent machine.Agent) error {
	return insertMachine(ctx, t.conn, t.workspace, m, agent)
}

// UpdateMachine implements machine.Tx.
func (t *Tx) UpdateMachine(ctx context.Context, m machine.Machine) error {
	return t.update(ctx, domain.NotFound("machine", m.ID), "machines", string(m.ID), values{
		"name": m.Name, "flavor": m.Flavor, "image": m.Image, "image_ref": m.ImageRef, "auto_stop": m.AutoStop, "slots": m.Slots, "host": m.Host,
		"last_used_at": m.LastUsedAt, "desired": m.Desired, "state": m.State, "message": m.Message, "state_since": m.StateSince, "incarnation": m.Incarnation,
		"restarts": m.Restarts, "made": m.Made, "released": m.Released, "idle_since": m.IdleSince, "held_at": m.HeldAt, "due_at": m.DueAt,
		"write_engine": m.WriteEngine, "nodes": m.Nodes, "trino_start": m.TrinoStart,
	})
}

// DeleteMachine implements machine.Tx.
func (t *Tx) DeleteMachine(ctx context.Context, id domain.MachineID) error {
	return t.execOne(ctx, domain.NotFound("machine", id), `DELETE FROM machines WHERE workspace_id = $1 AND id = $2`, t.workspace, id)
}

// SetBootstrap implements machine.Tx.
func (t *Tx) SetBootstrap(ctx context.Context, agent domain.AgentID, hash []byte, expires time.Time) error {
	return t.execOne(ctx, domain.NotFound("agent", agent), `UPDATE agents SET bootstrap_hash = $3, bootstrap_expires_at = $4 WHERE workspace_id = $1 AND id = $2`,
		t.workspace, agent, hash, expires)
}

// TakeBootstrap implements machine.Tx.
func (t *Tx) TakeBootstrap(ctx context.Context, agent domain.AgentID, hash []byte, now time.Time) (taken bool, err error) {
	return t.touched(ctx, `UPDATE agents SET bootstrap_hash = NULL, bootstrap_expires_at = NULL
		WHERE workspace_id = $1 AND id = $2 AND bootstrap_hash = $3 AND bootstrap_expires_at > $4`, t.workspace, agent, hash, now)
}

// SetEngines implements machine.Tx.
func (t *Tx) SetEngines(ctx context.Context, agent domain.AgentID, engines []machine.Engine) error {
	body, err := json.Marshal(each(engines, storeEngine))
	if err != nil {
		return err
	}
	return t.exec(ctx, `WITH other AS (UPDATE agents SET engines = $3 WHERE workspace_id = $1 AND id = $2 AND engines <> $3::jsonb RETURNING id)
		UPDATE machines SET changed = pg_current_xact_id() WHERE workspace_id = $1 AND agent_id = $2 AND EXISTS (SELECT FROM other)`, t.workspace, agent, string(body))
}

// Busy implements machine.Tx.
func (t *Tx) Busy(ctx context.Context, id domain.MachineID) (b machine.Busy, err error) {
	err = t.get(ctx, &b, `SELECT
		(SELECT count(*) FROM attempts a JOIN agents g ON g.workspace_id = a.workspace_id AND g.id = a.agent_id
			WHERE a.workspace_id = $1 AND g.machine_id = $2 AND a.status IN ('starting', 'running')) AS attempts,
		(SELECT count(*) FROM statements WHERE workspace_id = $1 AND warehouse_id = $2 AND state IN ('queued', 'running')) AS statements,
		EXISTS (SELECT FROM tasks WHERE workspace_id = $1 AND machine_id = $2 AND machine_id <> '' AND status = 'queued' AND current IS NULL) AS waiting`, t.workspace, id)
	return b, err
}

// Prices implements machine.Tx.
func (t *Tx) Prices(ctx context.Context, provider machine.ProviderKind, region string, at time.Time) (map[string]machine.Price, error) {
	var found []struct {
		Flavor   string          `db:"flavor"`
		Hourly   decimal.Decimal `db:"hourly"`
		Currency string          `db:"currency"`
	}
	err := t.sel(ctx, &found, `SELECT DISTINCT ON (flavor) flavor, hourly, currency FROM prices WHERE provider = $1 AND region = $2 AND effective_from <= $3
		ORDER BY flavor, effective_from DESC`, provider, region, at)
	all := make(map[string]machine.Price, len(found))
	for _, p := range found {
		all[p.Flavor] = machine.Price{Hourly: p.Hourly, Currency: p.Currency}
	}
	return all, err
}

type machineRefRow struct {
	Workspace domain.WorkspaceID `db:"workspace_id"`
	ID        domain.MachineID   `db:"id"`
	DueAt     time.Time          `db:"due_at"`
}

func (r machineRefRow) due() (machine.Due, error) {
	return machine.Due{Ref: machine.Ref{Workspace: r.Workspace, Machine: r.ID}, At: r.DueAt.UTC()}, nil
}

func kinds(all []machine.ProviderKind) any { return texts(all) }

// DueMachines implements machine.System.
func (s *System) DueMachines(ctx context.Context, from []machine.ProviderKind, host string, limit int) ([]machine.Due, error) {
	all, err := rows(ctx, s.db, machineRefRow.due, `SELECT workspace_id, id, due_at FROM machines WHERE due_at IS NOT NULL AND provider = ANY($1)
		AND host IN ('', $2) ORDER BY due_at LIMIT $3`, kinds(from), host, limit)
	return all, mapError(err)
}

// CheckMachines implements machine.System.
func (s *System) CheckMachines(ctx context.Context, host string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE machines SET due_at = $2 WHERE host = $1 AND NOT (released AND state IN ('stopped', 'failed'))`, host, now)
	return mapError(err)
}

// ShiftMachines implements machine.System.
func (s *System) ShiftMachines(ctx context.Context, host string, by time.Duration) error {
	_, err := s.db.ExecContext(ctx, `UPDATE machines SET state_since = state_since + $1 * interval '1 microsecond', idle_since = idle_since + $1 * interval '1 microsecond',
		due_at = due_at + $1 * interval '1 microsecond' WHERE host = $2
		AND NOT (released AND state IN ('stopped', 'failed'))`, by.Microseconds(), host)
	return mapError(err)
}

// OverdueMachines implements machine.System.
func (s *System) OverdueMachines(ctx context.Context, starting, stopping time.Time) ([]machine.Ref, error) {
	due, err := rows(ctx, s.db, machineRefRow.due, `SELECT workspace_id, id, due_at FROM machines WHERE due_at IS NOT NULL
		AND (state = 'starting' AND state_since <= $1 OR state = 'stopping' AND state_since <= $2) AND due_at <= GREATEST($1, $2)`, starting, stopping)
	refs := make([]machine.Ref, len(due))
	for i, d := range due {
		refs[i] = d.Ref
	}
	return refs, mapError(err)
}

// KnownMachines implements machine.System.
func (s *System) KnownMachines(ctx context.Context, ids []domain.MachineID) (known []domain.MachineID, err error) {
	err = s.db.SelectContext(ctx, &known, `SELECT id FROM machines WHERE id = ANY($1)`, texts(ids))
	return known, mapError(err)
}

// BootstrapAgent implements job.System.
func (s *System) BootstrapAgent(ctx context.Context, hash []byte) (domain.AgentRef, error) {
	var r refRow
	err := s.db.GetContext(ctx, &r, `SELECT workspace_id, id FROM agents WHERE bootstrap_hash = $1`, hash)
	return domain.AgentRef{Workspace: r.Workspace, Agent: domain.AgentID(r.ID)}, mapError(orMissing(err, errUnknown))
}

// InsertPrices implements machine.System.
func (s *System) InsertPrices(ctx context.Context, provider machine.ProviderKind, region string, from time.Time, prices map[string]machine.Price) error {
	for flavor, p := range prices {
		_, err := s.db.ExecContext(ctx, `INSERT INTO prices (provider, region, flavor, effective_from, hourly, currency) SELECT $1, $2, $3, $4, $5, $6
			WHERE NOT EXISTS (SELECT FROM prices WHERE provider = $1 AND region = $2 AND flavor = $3) ON CONFLICT DO NOTHING`,
			provider, region, flavor, from, p.Hourly, p.Currency)
		if err != nil {
			return mapError(err)
		}
	}
	return nil
}
