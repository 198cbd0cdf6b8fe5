//! The rules of the flags about logs, with the feature gates that guard some of them.
//!
//! Upstream: `Validate` in `k8s.io/component-base/logs/api/v1/options.go`. It runs before all other checks but that of
//! feature gates, so its errors come alone.

use steersman_values::quantity::Quantity;

use super::ConfigError;
use crate::command_line::Options;
use crate::features::Features;
use crate::logs::LogFormat;

/// The flags behind `LoggingAlphaOptions`, with their fields in the messages.
const ALPHA: [(&str, &str); 4] = [
    ("log-text-split-stream", "text.splitStream"),
    ("log-text-info-buffer-size", "text.infoBufferSize"),
    ("log-json-split-stream", "json.splitStream"),
    ("log-json-info-buffer-size", "json.infoBufferSize"),
];

/// The errors of the flags about logs.
pub(super) fn check(options: &Options, features: &Features) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if options.duration("log-flush-frequency").to_std().is_zero() {
        let frequency = options.value("log-flush-frequency").to_string();
        errors.push(ConfigError::FlushFrequency(frequency));
    }
    let format = options.text("logging-format");
    match LogFormat::from_flag(&format) {
        Ok(LogFormat::Json) if !features.is_on("LoggingBetaOptions") => {
            errors.push(ConfigError::LogFormatOff(format.clone()));
        }
        Ok(_) => {}
        Err(unknown) => errors.push(ConfigError::LogFormat(unknown)),
    }
    if !matches!(&*format, "" | "text") && !options.text("vmodule").is_empty() {
        errors.push(ConfigError::Vmodule);
    }
    if !features.is_on("LoggingAlphaOptions") {
        let set = ALPHA.iter().filter(|(flag, _)| is_set(options, flag));
        errors.extend(set.map(|(_, field)| ConfigError::LogOption(field)));
    }
    errors
}

/// Whether one of the flags in [`ALPHA`] asks for anything: a split, or a buffer with any size.
fn is_set(options: &Options, flag: &str) -> bool {
    if flag.ends_with("split-stream") {
        return options.bool(flag);
    }
    let size = Quantity::parse(&options.text(flag));
    size.is_some_and(|size| !size.is_zero())
}
