package domain

// Topic names something that changes. It carries no data: subscribers read the table again.
type Topic string

// The topics.
func RunTopic(id RunID) Topic              { return Topic("run:" + id) }
func RunsTopic(ws WorkspaceID) Topic       { return Topic("runs:" + ws) }
func AgentsTopic(ws WorkspaceID) Topic     { return Topic("agents:" + ws) }
func AgentTopic(id AgentID) Topic          { return Topic("agent:" + id) }
func SessionTopic(id SessionID) Topic      { return Topic("session:" + id) }
func APIKeyTopic(id APIKeyID) Topic        { return Topic("key:" + id) }
func LogTopic(id AttemptID) Topic          { return Topic("log:" + id) }
func MachinesTopic(ws WorkspaceID) Topic   { return Topic("machines:" + ws) }
func StatementTopic(id StatementID) Topic  { return Topic("statement:" + id) }
func StatementsTopic(ws WorkspaceID) Topic { return Topic("statements:" + ws) }
func MetricsTopic(id MachineID) Topic      { return Topic("metrics:" + id) }
func MaintenanceRunsTopic(ws WorkspaceID) Topic {
	return Topic("maintenance:" + ws)
}

func ExperimentsTopic(ws WorkspaceID) Topic   { return Topic("experiments:" + ws) }
func TrackingRunTopic(id TrackingRunID) Topic { return Topic("tracking:" + id) }
func TrackingRunsTopic(ws WorkspaceID) Topic  { return Topic("tracking:" + ws) }

// StatementCancelTopic is for the server that runs the statement: its cancellation was requested.
func StatementCancelTopic(id StatementID) Topic { return Topic("cancel:" + id) }

// Topics that only the platform listens to.
const (
	DispatchTopic  Topic = "dispatch"  // there may be a task that can start
	ScheduleTopic  Topic = "schedule"  // a schedule changed
	ReconcileTopic Topic = "reconcile" // a machine is due
	HandoverTopic  Topic = "handover"  // a statement waits for a server

	MaintenanceTopic Topic = "maintenance" // a policy changed, a warehouse runs, a run is due, or its statement is over or to be cancelled
)

// Topics wakes subscribers, on this replica and on the others. Wake-ups coalesce: a subscriber's
// channel has a capacity of one, publishers never block, and a slow subscriber harms no other.
type Topics interface {
	// Subscribe wakes the channel after each change of any of the topics, and also when wake-ups
	// may have been missed. The caller calls stop when done.
	Subscribe(topics ...Topic) (wake <-chan struct{}, stop func())
	// Wake wakes the subscribers of this replica.
	Wake(topic Topic)
	// WakeOthers wakes the subscribers of other replicas soon: at most one notification every 50 ms
	// goes out, so it is for what changes often (logs). State changes use Tx.Notify.
	WakeOthers(topic Topic)
}
