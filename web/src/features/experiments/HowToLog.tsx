import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { CopyButton } from "@/ui/Copy";

const environment = () =>
  `export MLFLOW_TRACKING_URI=${location.origin}/api/v1/mlflow\nexport MLFLOW_TRACKING_TOKEN=<an API key>`;

const program = (experiment: string) => `import mlflow

mlflow.set_experiment(${JSON.stringify(experiment)})
with mlflow.start_run():
    mlflow.log_param("learning_rate", 0.01)
    for step in range(100):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)`;

/** How a program logs to an experiment, to copy. */
export function HowToLog({ experiment }: { experiment: string }) {
  return (
    <div className="how-to-log">
      <Text size="sm">
        In a task of a job, MLflow is set up already. Elsewhere, say where the server is, with the secret of
        an{" "}
        <Link to="/api-keys" search={{ create: true }}>
          API key
        </Link>{" "}
        of the role editor:
      </Text>
      <CopyBlock text={environment()} label="Copy the settings" />
      <Text size="sm">Then any MLflow client of version 2 or 3 logs here:</Text>
      <CopyBlock text={program(experiment)} label="Copy the program" />
    </div>
  );
}

function CopyBlock({ text, label }: { text: string; label: string }) {
  return (
    <div className="copy-block">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so that keys must reach it */}
      <pre className="code-block" tabIndex={0}>
        {text}
      </pre>
      <CopyButton value={text} label={label} />
    </div>
  );
}
