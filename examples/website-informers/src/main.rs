//! The operator on Steersman's informers as a program, with the flags, election and server of a manager.

use std::process::ExitCode;

use steersman::ControllerRegistry;
use website_informers::CONTROLLER;

fn main() -> ExitCode {
    steersman::run(
        std::env::args().skip(1).collect(),
        ControllerRegistry::empty().with(CONTROLLER),
    )
}
