// For jest, whose hooks are global.
require("./stories.cjs")(test);
