//! Order of merged lists: the patch orders its elements, the server orders all others.
//!
//! Upstream is `normalizeElementOrder` in `apimachinery/pkg/util/strategicpatch/patch.go`.

use serde_json::Value;

/// Identity of list elements: the value of a merge key, or the whole element.
#[derive(Clone, Copy)]
pub(super) struct Identity(pub(super) Option<&'static str>);

impl Identity {
    pub(super) fn of<'a>(&self, element: &'a Value) -> Option<&'a Value> {
        match self.0 {
            Some(key) => element.get(key),
            None => Some(element),
        }
    }

    /// Position of the element of `list` with the identity of `element`.
    pub(super) fn position(&self, list: &[Value], element: &Value) -> Option<usize> {
        let wanted = self.of(element)?;
        list.iter()
            .position(|candidate| self.of(candidate) == Some(wanted))
    }
}

/// Orders `merged`. Elements in `patch_order` follow it; the others follow `server_order`. One of
/// the others precedes an element of the patch only if it did so on the server. A patch that adds
/// `new` to `[c]` therefore yields `[new, c]`.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    identity: Identity,
) -> Vec<Value> {
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|element| identity.position(patch_order, element).is_some());
    named.sort_by_key(|element| identity.position(patch_order, element));
    rest.sort_by_key(|element| identity.position(server_order, element));

    let mut arranged = Vec::with_capacity(named.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for element in named {
        let place = identity.position(server_order, &element);
        while let Some(earlier) =
            rest.next_if(
                |other| match (identity.position(server_order, other), place) {
                    (Some(other), Some(place)) => other < place,
                    _ => false,
                },
            )
        {
            arranged.push(earlier);
        }
        arranged.push(element);
    }
    arranged.extend(rest);
    arranged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_the_patch_come_first_unless_the_server_had_one_before() {
        // (merged, order of the patch, order on the server, expected)
        let cases = [
            ("c n", "n", "c", "n c"),
            ("a d", "d", "a", "d a"),
            ("a b c", "c", "a b c", "a b c"),
            ("a b c", "b a", "a b c", "b a c"),
            ("a b c x", "c a", "a b c x", "b c a x"),
            ("a b", "", "b a", "b a"),
        ];
        let list = |text: &str| text.split_whitespace().map(Value::from).collect::<Vec<_>>();
        for (merged, patch, server, expected) in cases {
            let got = arrange(list(merged), &list(patch), &list(server), Identity(None));
            assert_eq!(got, list(expected), "{merged} by {patch} on {server}");
        }
    }
}
