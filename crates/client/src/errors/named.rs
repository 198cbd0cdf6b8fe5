//! Names for errors without a failed request, and errors of several requests.
//!
//! [`Category`](super::Category) reads the chain of sources of an error. So an error gets a category
//! of its own by a [`Decision`] as its source, and an [`Aggregate`] passes on that of one member.

use std::error::Error;
use std::fmt;

use super::ApiError;

/// A decision that ends a sync, named in snake case, such as `content_remains`.
///
/// An error has it as its last source. The field `category` of log lines then shows the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[error("{0}")]
pub struct Decision(pub &'static str);

/// Errors of one sync, in the order in which they happened. Their text is that of upstream's
/// `Aggregate`.
///
/// The source is the first member with a failed request, or else the first member.
#[derive(Debug)]
pub struct Aggregate<E>(pub Vec<E>);

impl<E: fmt::Display> fmt::Display for Aggregate<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return one.fmt(f);
        }
        f.write_str("[")?;
        for (at, error) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{error}")?;
        }
        f.write_str("]")
    }
}

impl<E: Error + 'static> Error for Aggregate<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let is_request = |error: &&E| ApiError::within(*error).is_some();
        let first = self.0.iter().find(is_request).or(self.0.first())?;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Category;
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("{0}")]
        Request(#[source] ApiError),
        #[error("pods remain")]
        Remaining(#[source] Decision),
    }

    fn fenced() -> Failure {
        Failure::Request(ApiError::Fenced {
            request: "PUT /x".to_owned(),
        })
    }

    const REMAINING: Decision = Decision("pods_remain");

    #[test]
    fn one_error_is_itself_and_several_are_a_list() {
        let text = |errors| Aggregate(errors).to_string();
        let remaining = || Failure::Remaining(REMAINING);
        assert_eq!(text(vec![remaining()]), "pods remain");
        let two = vec![remaining(), fenced()];
        assert_eq!(
            text(two),
            "[pods remain, PUT /x: not sent, leadership has ended]"
        );
    }

    #[test]
    fn category_of_an_aggregate_is_that_of_its_first_failed_request() {
        let of = |errors| Category::of(&Aggregate::<Failure>(errors));
        let remaining = || Failure::Remaining(REMAINING);
        assert_eq!(of(vec![remaining(), fenced()]), Category::Fenced);
        assert_eq!(of(vec![remaining()]), Category::Named(REMAINING));
        assert_eq!(of(vec![]), Category::Decision);
    }
}
