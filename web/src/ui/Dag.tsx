import "@xyflow/react/dist/style.css";
import "./graph.css";
import { Loader, useComputedColorScheme } from "@mantine/core";
import { IconAffiliate, IconCloud, IconTable, IconTerminal2, type TablerIcon } from "@tabler/icons-react";
import {
  Background,
  Controls,
  type Edge,
  Handle,
  MiniMap,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import { memo, useEffect, useEffectEvent, useMemo, useRef } from "react";
import type { TaskStatus } from "@/gql/gen";
import { nodeHeight, nodeWidth } from "./dagLayout";
import { StatusIcon, statusWord } from "./Status";
import { useDagLayout } from "./useDagLayout";

export type DagKind = "table" | "statement" | "task" | "outside";
const kindIcons: Record<DagKind, TablerIcon> = {
  table: IconTable,
  statement: IconTerminal2,
  task: IconAffiliate,
  outside: IconCloud,
};

export interface DagTask {
  key: string;
  /** Text in place of the key. */
  title?: string | undefined;
  /** The kind of a node that is not a task. */
  kind?: DagKind | undefined;
  dependsOn: readonly string[];
  /** Absent in the drawing of a job, which has no states. */
  status?: TaskStatus;
  /** Beside the status, such as a duration. */
  detail?: string | undefined;
  /** Its declaration has an error. */
  invalid?: boolean;
}
type TaskNode = Node<{ task: DagTask; selected: boolean; onSelect?: (() => void) | undefined }, "task">;

/** Cut at the card's edge; the full text is shown on hover. */
function Detail({ task: { detail } }: { task: DagTask }) {
  if (!detail) return null;
  return (
    <span className="dag-detail" title={detail}>
      {detail}
    </span>
  );
}

function Title({ task: { key, title, kind } }: { task: DagTask }) {
  const Icon = kind && kindIcons[kind];
  return (
    <span className="dag-key" title={title}>
      {Icon && <Icon size={13} stroke={1.7} aria-label={kind} />}
      {title ?? (key || "(no key)")}
    </span>
  );
}

const TaskCard = memo(({ data: { task, selected, onSelect } }: NodeProps<TaskNode>) => (
  <>
    <Handle type="target" position={Position.Left} isConnectable={false} />
    <button
      type="button"
      className="dag-node nopan"
      data-status={task.status}
      data-selected={selected || undefined}
      data-invalid={task.invalid || undefined}
      data-kind={task.kind}
      aria-pressed={selected}
      onClick={onSelect}
      disabled={!onSelect}
    >
      <Title task={task} />
      {task.status ? (
        <span className="dag-state">
          <StatusIcon status={task.status} size={12} />
          {statusWord(task.status)}
          <Detail task={task} />
        </span>
      ) : (
        <span className="dag-state">{task.invalid ? "Needs attention" : <Detail task={task} />}</span>
      )}
    </button>
    <Handle type="source" position={Position.Right} isConnectable={false} />
  </>
));
/** Below this, nodes are too small to read and to click. */
const smallest = 0.52;
const manyTasks = 40;
const fit = { padding: 0.12, maxZoom: 1, minZoom: smallest };
const nodeTypes = { task: TaskCard };

/** Runs when the graph's area changes its size. */
function OnResize({ run }: { run: (flow: ReactFlowInstance<TaskNode>) => void }) {
  const flow = useReactFlow<TaskNode>();
  const room = useStore((s) => (s.width && s.height ? `${s.width} ${s.height}` : ""));
  const last = useRef("");
  const resized = useEffectEvent(() => run(flow));
  useEffect(() => {
    if (last.current && room && last.current !== room) resized();
    last.current = room || last.current;
  }, [room]);
  return null;
}

/** The tasks of a DAG and their dependencies. A click selects a task by its index. */
export function Dag({
  tasks,
  selected,
  onSelect,
  label,
}: {
  tasks: readonly DagTask[];
  selected?: number | undefined;
  onSelect?: (index: number) => void;
  label: string;
}) {
  const scheme = useComputedColorScheme("light");
  const { shape, positions } = useDagLayout(tasks);
  const nodes = useMemo<TaskNode[]>(
    () =>
      tasks.map((task, i) => ({
        id: String(i),
        type: "task",
        position: positions?.[i] ?? { x: 0, y: 0 },
        width: nodeWidth,
        height: nodeHeight,
        data: { task, selected: selected === i, onSelect: onSelect && (() => onSelect(i)) },
      })),
    [tasks, positions, selected, onSelect],
  );
  const edges = useMemo<Edge[]>(
    () =>
      shape.edges.map(([from, to]) => ({
        id: `${from}-${to}`,
        source: String(from),
        target: String(to),
        focusable: false,
        animated: tasks[to]?.status === "RUNNING",
        ...(selected === from || selected === to ? { className: "dag-edge-selected" } : {}),
      })),
    [shape, tasks, selected],
  );
  const place = selected === undefined ? undefined : positions?.[selected];
  /** A graph that is too large to read as a whole opens at the selected task. */
  const showSelected = (flow: ReactFlowInstance<TaskNode>) => {
    if (!place || tasks.length <= manyTasks) return;
    void flow.setCenter(place.x + nodeWidth / 2, place.y + nodeHeight / 2, { zoom: 0.8 });
  };
  /** Whether the user has moved the graph: the view then stays. */
  const moved = useRef(false);
  const refit = (flow: ReactFlowInstance<TaskNode>) => {
    if (moved.current) return;
    void flow.fitView(fit);
    showSelected(flow);
  };
  if (!positions)
    return (
      <div className="dag dag-waiting" role="status" aria-label="Drawing the graph">
        <Loader size="sm" />
      </div>
    );
  return (
    <section className="dag" aria-label={label}>
      <ReactFlow
        key={shape.ids.length}
        nodes={nodes}
        edges={edges}
        nodeTypes={nodeTypes}
        colorMode={scheme}
        fitView
        fitViewOptions={fit}
        onInit={showSelected}
        onMoveStart={(event) => {
          if (event) moved.current = true;
        }}
        onlyRenderVisibleElements={tasks.length > 150}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        zoomOnScroll={false}
        preventScrolling={false}
        zoomActivationKeyCode={["Meta", "Control"]}
        minZoom={0.05}
        maxZoom={1.5}
      >
        <Background gap={20} size={1} />
        <Controls
          showInteractive={false}
          position="bottom-left"
          fitViewOptions={fit}
          onFitView={() => {
            moved.current = false;
          }}
        />
        <OnResize run={refit} />
        {tasks.length > manyTasks && (
          <MiniMap
            pannable
            zoomable
            position="top-right"
            style={{ width: 150, height: 84 }}
            ariaLabel="Overview of the graph"
          />
        )}
      </ReactFlow>
    </section>
  );
}
