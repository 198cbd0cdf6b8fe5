//! The work of exec and attach: the output of a command, and the status of its end.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::{Channels, ERROR, Input, Output, STDERR, STDIN, STDOUT};
use crate::containers::{Disks, Program, unpack};
use crate::status::Status;

/// A command in a container.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) program: Program,
    /// The channels that the client asks for, besides that of the status.
    pub(crate) channels: Vec<u32>,
    /// The files of containers, and the container of the command.
    pub(crate) disks: Arc<Disks>,
    pub(crate) disk: (String, String),
}

impl Command {
    /// The channels between client and command.
    pub(super) fn channels(&self) -> Vec<u32> {
        let own = self.channels.iter().copied();
        own.chain([ERROR]).collect()
    }

    pub(super) async fn run(self, mut channels: Channels) {
        let status = self.course(&mut channels).await;
        for channel in [STDOUT, STDERR] {
            drop(channels.output.send(Output::End(channel)).await);
        }
        channels.send(ERROR, status.to_string()).await;
    }

    /// Runs the program, and returns the status of its end.
    async fn course(&self, channels: &mut Channels) -> Value {
        match &self.program {
            Program::Print {
                stdout,
                stderr,
                code,
            } => {
                self.write(channels, STDOUT, stdout).await;
                self.write(channels, STDERR, stderr).await;
                exit_status(*code)
            }
            Program::Echo => {
                while let Some(data) = next_of_stdin(channels).await {
                    self.write(channels, STDOUT, &data).await;
                }
                exit_status(0)
            }
            Program::Unpack(folder) => {
                let mut archive = BytesMut::new();
                while let Some(data) = next_of_stdin(channels).await {
                    archive.extend_from_slice(&data);
                    if let Some(files) = unpack(&archive, folder) {
                        self.disks.write(&self.disk, files);
                        return exit_status(0);
                    }
                }
                let error = Bytes::from("tar: Unexpected EOF in archive\n");
                self.write(channels, STDERR, &error).await;
                exit_status(2)
            }
            Program::Missing(why) => {
                let why = format!("error executing command in container: {why}");
                Status::internal(why).to_value()
            }
        }
    }

    /// Writes to a channel that the client asked for.
    async fn write(&self, channels: &Channels, channel: u32, data: &Bytes) {
        if self.channels.contains(&channel) {
            channels.send(channel, data.clone()).await;
        }
    }
}

/// The next piece of standard input; `None` after its end, and for a client that is gone.
async fn next_of_stdin(channels: &mut Channels) -> Option<Bytes> {
    loop {
        match channels.input.recv().await? {
            Input::Data(STDIN, data) => return Some(data),
            Input::End(STDIN) => return None,
            _ => {}
        }
    }
}

/// The status of a command that has ended. Upstream: `NonZeroExitCodeReason` of
/// `k8s.io/apimachinery/pkg/util/remotecommand`.
fn exit_status(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    let cause = json!({"reason": "ExitCode", "message": code.to_string()});
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [cause]},
    })
}
