package graph

import (
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/graph/generated"
	"github.com/millpond/millpond/graph/model"
)

// Costs of a field besides its selection, in units of one plain field.
const (
	costRead   = 50   // one transaction
	costWrite  = 50   // a transaction with its audit row
	costHash   = 2000 // one password hash: 19 MiB and tens of milliseconds
	bytesAUnit = 256  // of a log
	costResult = 5000 // a chunk of a result: 16 MiB of Arrow become JSON
	costChart  = 1000 // reads up to 100,000 points
	costFiles  = 500  // opens files of a table
)

// Assumed lengths of lists without pages.
const (
	fewTasks      = 5
	fewAttempts   = 2
	fewFlavors    = 10
	fewColumns    = 10
	fewChunks     = 2
	fewTables     = 3 // of a statement; the lineage of a run and a graph are bounded by existing entries
	fewOperations = 3 // of a maintenance run
	fewTracked    = 2 // tracking runs of a job's run
	fewLogged     = 5 // metrics, parameters or tags
	fewInputs     = 2
	fewSamples    = 10 // an hour has 720 small ones: the response's budget counts the existing ones
)

// costs prices fields that do not cost one unit: a list costs its length times its selection, a log
// its bytes.
func costs() (c generated.ComplexityRoot) {
	c.Query.Instance, c.Query.Viewer, c.Query.Overview, c.Query.Quotas = read, read, read, read
	c.Query.Provider, c.Query.Storage = read, read
	c.Query.Flavors = func(child int) int { return costRead + fewFlavors*child }
	c.Query.Agent, c.Query.Job, c.Query.Run, c.Query.Compute, c.Query.Warehouse = readByID, readByID, readByID, readByID, readByID
	c.Query.Agents = func(child int, first *int, _ *string) int { return list(child, first) }
	c.Query.APIKeys = func(child int, first *int, _ *string) int { return list(child, first) }
	c.Query.ComputeInstances = func(child int, first *int, _ *string) int { return list(child, first) }
	c.Query.Warehouses = func(child int, first *int, _ *string) int { return list(child, first) }
	c.Query.Jobs = func(child int, first *int, _ *string, _ *job.Filter) int { return list(child, first) }
	c.Query.Members = func(child int, first *int, _ *string) int { return list(child, first) }
	c.Query.Runs = func(child int, first *int, _ *string, _ *job.RunFilter) int { return list(child, first) }
	c.Query.AttemptLog = func(child int, _ string, _ *int64, maxBytes *int) int { return logBytes(child, maxBytes) }
	c.Query.CronPreview = func(child int, _, _ string, count *int) int { return child + ticks(count) }

	c.Job.Runs = func(child int, first *int, _ *string, _ []job.RunStatus) int { return list(child, first) }
	c.Job.Tasks = func(child int) int { return 1 + fewTasks*child }
	c.Schedule.Next = func(child int, count *int) int { return child + ticks(count) }
	c.Run.Tasks = func(child int) int { return 1 + fewTasks*child }
	c.Run.Attempts = func(child int) int { return 1 + fewAttempts*child }
	c.Task.Attempts = func(child int) int { return 1 + fewAttempts*child }
	c.Attempt.LogTail = func(child int, bytes *int) int { return logBytes(child, bytes) }
	c.Compute.Metrics, c.Warehouse.Metrics = samples, samples
	c.Compute.Log, c.Warehouse.Log = logBytes, logBytes
	return writeCosts(trackingCosts(sqlCosts(c)))
}

// trackingCosts prices experiments and tracking runs.
func trackingCosts(c generated.ComplexityRoot) generated.ComplexityRoot {
	c.Query.Experiment, c.Query.TrackingRun = readByID, readByID
	c.Query.Experiments = func(child int, _ *string, _ []string, _ *tracking.View, first *int, _ *string) int {
		return list(child, first)
	}
	c.Query.TrackingRuns = func(child int, _ []string, _ *string, _ []string, _ *tracking.View, first *int, _ *string) int {
		return list(child, first)
	}
	c.Experiment.Runs = c.Query.Experiments
	c.Experiment.Tags, c.TrackingDataset.Tags = pairs, pairs
	c.Run.TrackingRuns = func(child int) int { return 1 + fewTracked*child }
	c.TrackingRun.Metrics, c.TrackingRun.Parameters, c.TrackingRun.Tags = keyed, keyed, keyed
	c.TrackingRun.Lineage = read
	c.TrackingRun.Inputs = func(child int) int { return 1 + fewInputs*child }
	c.TrackingRun.Points = func(child int, _ string, first *int, _ *string) int {
		return costRead + min(max(value(first), 1), maxPoints)*child
	}
	c.TrackingRun.Chart = func(child int, _ string, most *int) int {
		return costRead + costChart + min(max(value(most), 1), tracking.MaxChart)*child/4
	}
	return c
}

func pairs(child int) int { return 1 + fewLogged*child }

func keyed(child int, keys []string) int {
	if keys == nil {
		return 1 + fewLogged*child
	}
	return 1 + len(keys)*child
}

// sqlCosts prices statements and the catalog.
func sqlCosts(c generated.ComplexityRoot) generated.ComplexityRoot {
	c.Query.Statement, c.Query.Database, c.Query.Table = readByID, readByID, readByID
	c.Query.TableByName = func(child int, _, _, _ string) int { return costRead + child }
	c.Query.Statements = func(child int, first *int, _ *string, _ *model.StatementFilter) int { return list(child, first) }
	c.Query.Databases = func(child int, first *int, _ *string) int { return list(child, first) }
	c.Query.Lineage = func(child int, _ string, _ *lineage.Way, depth *int, _ *time.Time) int {
		return graphOf(child, depth)
	}
	c.Statement.Columns = func(child int) int { return 1 + fewColumns*child }
	c.Statement.Chunks = func(child int) int { return 1 + fewChunks*child }
	c.Statement.Chunk = func(child, _ int) int { return costResult + child }
	c.Lineage.Read, c.Lineage.Written = tables, tables
	c.RunLineage.Read, c.RunLineage.Written = tables, tables
	c.Run.Lineage = read
	c.Database.Schemas = func(child int, first *int, _ *string) int { return list(child, first) }
	c.Database.Tables = func(child int, first *int, _ *string, _ *string, _ *lake.TableKind, _ *bool) int {
		return list(child, first)
	}
	c.LakeTable.Columns = func(child int) int { return costRead + fewColumns*child }
	c.LakeTable.SQL, c.LakeTable.Dialect = read, read
	c.LakeTable.Snapshots = func(child int, first *int, _ *string) int { return list(child, first) }
	c.LakeTable.History = func(child int, first *int, _ *string) int { return list(child, first) }
	c.LakeTable.Files = func(child int, first *int, _ *string, _ *int64) int { return costFiles + list(child, first) }
	c.LakeTable.Partitions = func(child int, first *int, _ *string) int { return costFiles + list(child, first) }
	c.LakeTable.Sample = func(child int, _ *int) int { return 2*costFiles + child }
	c.Query.Maintenance, c.Database.Maintenance, c.LakeTable.Maintenance, c.Query.MaintenanceRun = read, read, read, readByID
	c.Query.MaintenanceRuns = func(child int, first *int, _ *string, _ *string, _ *string) int { return list(child, first) }
	c.LakeTable.MaintenanceRuns = func(child int, first *int, _ *string) int { return list(child, first) }
	c.Database.MaintenanceRuns = func(child int, first *int, _ *string) int { return list(child, first) }
	c.MaintenanceRun.Operations = func(child int) int { return 1 + fewOperations*child }
	c.LakeTable.Lineage = func(child int, _ *lineage.Way, depth *int, _ *time.Time) int { return graphOf(child, depth) }
	return c
}

func tables(child int) int { return 1 + fewTables*child }

// graphOf returns the cost of a lineage graph: each hop is two reads in each direction.
func graphOf(child int, depth *int) int {
	hops := 1
	if depth != nil {
		hops = max(*depth, 1)
	}
	return child + 4*costRead*hops
}

func read(child int) int { return costRead + child }

func samples(child int, _ *time.Time) int { return costRead + fewSamples*child }

func readByID(child int, _ string) int { return costRead + child }

// writeCosts prices mutations. A test checks that it has all of them.
func writeCosts(c generated.ComplexityRoot) generated.ComplexityRoot {
	c.Mutation.Login = func(child int, _ model.LoginInput) int { return costHash + child }
	c.Mutation.SetUp = func(child int, _ auth.SetUp) int { return costHash + child }
	c.Mutation.ChangePassword = func(child int, _ model.ChangePasswordInput) int { return costHash + child }
	c.Mutation.AddMember = written[model.AddMemberInput]
	c.Mutation.CancelRun = written[model.CancelRunInput]
	c.Mutation.CreateAPIKey = written[identity.NewAPIKey]
	c.Mutation.CreateJob = written[model.CreateJobInput]
	c.Mutation.DeleteJob = written[model.DeleteJobInput]
	c.Mutation.Logout = func(child int) int { return costWrite + child }
	c.Mutation.RemoveMember = written[model.RemoveMemberInput]
	c.Mutation.RemoveSamples = func(child int) int { return costWrite + child }
	c.Mutation.RepairRun = written[model.RepairRunInput]
	c.Mutation.RevokeAPIKey = written[model.RevokeAPIKeyInput]
	c.Mutation.RotateAgentToken = written[model.RotateAgentTokenInput]
	c.Mutation.StartRun = written[model.StartRunInput]
	c.Mutation.UpdateJob = written[model.UpdateJobInput]
	c.Mutation.UpdateMember = written[model.UpdateMemberInput]
	c.Mutation.UpdateQuota = written[model.UpdateQuotaInput]
	c.Mutation.CreateCompute = written[model.CreateComputeInput]
	c.Mutation.CreateWarehouse = written[model.CreateWarehouseInput]
	c.Mutation.UpdateCompute = written[model.UpdateComputeInput]
	c.Mutation.UpdateWarehouse = written[model.UpdateWarehouseInput]
	c.Mutation.StartCompute = written[model.StartComputeInput]
	c.Mutation.StartWarehouse = written[model.StartWarehouseInput]
	c.Mutation.StopCompute = written[model.StopComputeInput]
	c.Mutation.StopWarehouse = written[model.StopWarehouseInput]
	c.Mutation.DeleteCompute = written[model.DeleteComputeInput]
	c.Mutation.DeleteWarehouse = written[model.DeleteWarehouseInput]
	c.Mutation.UpdateProvider = written[model.UpdateProviderInput]
	c.Mutation.UpdateStorage = written[model.UpdateStorageInput]
	c.Mutation.ExecuteStatement = written[model.ExecuteStatementInput]
	c.Mutation.CancelStatement = written[model.CancelStatementInput]
	c.Mutation.CreateDatabase = written[model.CreateDatabaseInput]
	c.Mutation.DeleteDatabase = written[model.DeleteDatabaseInput]
	c.Mutation.CreateSchema = written[model.CreateSchemaInput]
	c.Mutation.DeleteSchema = written[model.DeleteSchemaInput]
	c.Mutation.DropTable = written[model.DropTableInput]
	c.Mutation.PurgeTable = written[model.PurgeTableInput]
	c.Mutation.UndropTable = written[model.UndropTableInput]
	c.Mutation.RenameTable = written[model.RenameTableInput]
	c.Mutation.UpdateMaintenance = written[model.UpdateMaintenanceInput]
	c.Mutation.UpdateDatabaseMaintenance = written[model.UpdateDatabaseMaintenanceInput]
	c.Mutation.UpdateTableMaintenance = written[model.UpdateTableMaintenanceInput]
	c.Mutation.RunDatabaseMaintenance = written[model.RunDatabaseMaintenanceInput]
	c.Mutation.RunTableMaintenance = written[model.RunTableMaintenanceInput]
	c.Mutation.CreateExperiment = written[model.CreateExperimentInput]
	c.Mutation.UpdateExperiment = written[model.UpdateExperimentInput]
	c.Mutation.DeleteExperiment = written[model.DeleteExperimentInput]
	c.Mutation.RestoreExperiment = written[model.RestoreExperimentInput]
	c.Mutation.SetExperimentTags = written[model.SetExperimentTagsInput]
	c.Mutation.DeleteExperimentTag = written[model.DeleteExperimentTagInput]
	c.Mutation.CreateTrackingRun = written[model.CreateTrackingRunInput]
	c.Mutation.UpdateTrackingRun = written[model.UpdateTrackingRunInput]
	c.Mutation.DeleteTrackingRun = written[model.DeleteTrackingRunInput]
	c.Mutation.RestoreTrackingRun = written[model.RestoreTrackingRunInput]
	c.Mutation.LogTrackingRun = written[model.LogTrackingRunInput]
	c.Mutation.DeleteTrackingRunTag = written[model.DeleteTrackingRunTagInput]
	c.Mutation.LogTrackingRunInputs = written[model.LogTrackingRunInputsInput]
	c.ExecuteStatementPayload.Chunk = func(child int) int { return costResult + child }
	return c
}

func written[T any](child int, _ T) int { return costWrite + child }

// list returns the cost of a page: child has an edge and pageInfo. The resolver refuses a length
// out of bounds, at no cost.
func list(child int, first *int) int {
	n := domain.DefaultLimit
	if first != nil {
		n = min(max(*first, 1), domain.MaxLimit)
	}
	return costRead + n*child
}

func logBytes(child int, bytes *int) int {
	if bytes == nil {
		return costRead + child
	}
	return costRead + child + max(*bytes, 0)/bytesAUnit
}

func ticks(count *int) int {
	if count == nil {
		return 1
	}
	return 1 + max(*count, 0)
}
