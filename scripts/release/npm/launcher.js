#!/usr/bin/env node
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");
const { path } = require("../program.js");

// Without a script at installation, which many projects forbid. Signals go on to the program, so that a
// test runner can end it.
let program;
try {
  program = path();
} catch (error) {
  console.error(`steersman: ${error.message}`);
  process.exit(1);
}
// The handlers stand before the program runs: a signal in between would end the launcher alone. They run
// on the event loop, so `child` is set by then.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`steersman: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + os.constants.signals[signal]));
