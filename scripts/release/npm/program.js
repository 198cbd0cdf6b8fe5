"use strict";

/** The path of the program: that of the variable STEERSMAN, or the one of the package for this machine. */
exports.path = function path() {
  if (process.env.STEERSMAN) return process.env.STEERSMAN;
  const name = `@steersman/linux-${process.arch}`;
  try {
    return require.resolve(`${name}/bin/steersman`);
  } catch {
    throw new Error(
      `the package ${name} is not installed. There are packages for Linux on x64 and arm64; ` +
        "--omit=optional leaves them out.",
    );
  }
};
