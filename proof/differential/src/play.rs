//! Plays a sequence on two servers and compares the answers.

use anyhow::Result;
use serde_json::Value;

use crate::answer::{Answer, send};
use crate::sequence::{Sequence, Step};

/// The first step whose answers differ.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) at: usize,
    pub(crate) real: Answer,
    pub(crate) embedded: Answer,
}

/// Both servers.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) real: kube::Client,
    pub(crate) embedded: kube::Client,
}

impl Servers {
    /// Plays `sequence` with an object of this name on both servers.
    pub(crate) async fn play(&self, sequence: &Sequence, name: &str) -> Result<Option<Difference>> {
        let mut last_real = Value::Null;
        let mut last_embedded = Value::Null;
        for (at, step) in sequence.steps.iter().enumerate() {
            let real = ask(&self.real, step, name, &mut last_real).await?;
            let embedded = ask(&self.embedded, step, name, &mut last_embedded).await?;
            if real != embedded {
                return Ok(Some(Difference { at, real, embedded }));
            }
        }
        Ok(None)
    }
}

/// Sends one step. `last` is the object that the server answered last.
async fn ask(client: &kube::Client, step: &Step, name: &str, last: &mut Value) -> Result<Answer> {
    let mut body = step.body.clone();
    if step.onto_last {
        let mut whole = last.clone();
        merge(&mut whole, &body);
        body = whole;
    }
    let body = body.to_string().replace("NAME", name);
    let answer = send(
        client,
        step.method,
        &step.path.replace("NAME", name),
        step.content_type,
        body,
    )
    .await?;
    if answer.code < 300 {
        *last = answer.body.clone();
    }
    Ok(answer.masked())
}

/// Merges `patch` into `value`; lists are replaced.
fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (key, patch) in patch {
                merge(fields.entry(key.clone()).or_insert(Value::Null), patch);
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}
