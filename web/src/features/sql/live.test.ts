import { QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { takeStatement } from "./live";
import { type Statement, statementQuery } from "./queries";

const statement = (state: Statement["state"]) =>
  ({ __typename: "Statement", id: "stm_1", state }) as unknown as Statement;

test("a statement that is over stays so, whatever answer comes late", () => {
  const qc = new QueryClient();
  const key = statementQuery("stm_1").queryKey;
  takeStatement(qc, statement("RUNNING"));
  expect(qc.getQueryData(key)?.statement?.state).toBe("RUNNING");
  takeStatement(qc, statement("CANCELLED"));
  takeStatement(qc, statement("RUNNING"));
  expect(qc.getQueryData(key)?.statement?.state).toBe("CANCELLED");
});
