const runner = require("node:test");

require("./stories.cjs")(runner.test, runner);
