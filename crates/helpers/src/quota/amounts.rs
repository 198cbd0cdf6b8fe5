//! Amounts by resource name, and their arithmetic.
//!
//! Upstream: `resources.go` of `k8s.io/apiserver/pkg/quota/v1`.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use steersman_objects::ResourceList;
use steersman_values::intern::Sym;
use steersman_values::quantity::Quantity;

/// Exact amounts by resource name. A sum keeps the format of its first amount that is not zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<Sym, Quantity>);

impl Amounts {
    /// The amounts of a served list. Malformed quantities, which the API server refuses, are left
    /// out.
    pub fn of(list: &ResourceList) -> Self {
        let amounts = list.iter();
        amounts
            .filter_map(|(name, text)| Some((name.clone(), Quantity::parse(text)?)))
            .collect()
    }

    /// The amount of a resource; `None` if the list lacks it.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// Whether the list has the resource.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether the list has no resources.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All amounts, sorted by resource name.
    pub fn iter(&self) -> impl Iterator<Item = (&Sym, Quantity)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Stores an amount, in place of an earlier one.
    pub fn set(&mut self, name: &str, amount: Quantity) {
        self.0.insert(Sym::new(name), amount);
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, Quantity::plus);
    }

    /// Raises each amount to at least that of `other`.
    pub fn raise_to(&mut self, other: &Self) {
        self.combine(other, |own, other| if own < other { other } else { own });
    }

    /// Stores all of `other`, in place of earlier amounts.
    pub fn replace(&mut self, other: &Self) {
        self.combine(other, |_, other| other);
    }

    fn combine(&mut self, other: &Self, how: impl Fn(Quantity, Quantity) -> Quantity) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(own) => *own = how(*own, *amount),
                None => drop(self.0.insert(name.clone(), *amount)),
            }
        }
    }

    /// The part of each amount that exceeds `other`. Amounts that become zero are left out.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        let rest = |(name, amount): (&Sym, Quantity)| {
            let rest = other.get(name).map_or(amount, |other| amount.beyond(other));
            (!rest.is_zero()).then(|| (name.clone(), rest))
        };
        self.iter().filter_map(rest).collect()
    }

    /// Only the resources that `wanted` selects.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let kept = self.iter().filter(|(name, _)| wanted(name));
        kept.map(|(name, amount)| (name.clone(), amount)).collect()
    }

    /// `a=1,b=2`, as messages of refusals list amounts.
    pub fn to_text(&self) -> String {
        let words = self.iter();
        let words = words.map(|(name, amount)| format!("{name}={}", amount.canonical()));
        words.collect::<Vec<_>>().join(",")
    }
}

impl FromIterator<(Sym, Quantity)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (Sym, Quantity)>>(amounts: I) -> Self {
        Self(amounts.into_iter().collect())
    }
}

impl Serialize for Amounts {
    /// Canonical texts by resource name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, amount)| (name, amount.canonical())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(list: &[(&str, &str)]) -> Amounts {
        let list = list
            .iter()
            .map(|(name, text)| (Sym::new(name), Sym::new(text)));
        Amounts::of(&list.collect())
    }

    /// Upstream: `TestAdd`, `TestMax`, `TestSubtractWithNonNegativeResult`, `TestMask`.
    #[test]
    fn lists_of_amounts_are_added_raised_subtracted_and_masked() {
        let left = amounts(&[("cpu", "100m"), ("memory", "50M")]);
        let right = amounts(&[("cpu", "150m"), ("pods", "1")]);
        let mut sum = left.clone();
        sum.add(&right);
        assert_eq!(sum.to_text(), "cpu=250m,memory=50M,pods=1");
        let mut largest = left.clone();
        largest.raise_to(&right);
        assert_eq!(largest.to_text(), "cpu=150m,memory=50M,pods=1");
        assert_eq!(right.beyond(&left).to_text(), "cpu=50m,pods=1");
        assert_eq!(left.beyond(&right).to_text(), "memory=50M");
        assert_eq!(sum.only(|name| name == "pods").to_text(), "pods=1");
        let mut replaced = left;
        replaced.replace(&right);
        assert_eq!(replaced.to_text(), "cpu=150m,memory=50M,pods=1");
    }

    #[test]
    fn a_sum_has_the_format_of_its_first_amount() {
        // (first, second, sum)
        let cases = [
            ("1Gi", "1G", "2073741824"),
            ("0", "1Gi", "1Gi"),
            ("1G", "1Gi", "2073741824"),
            ("500m", "500m", "1"),
        ];
        for (first, second, sum) in cases {
            let mut total = amounts(&[("a", first)]);
            total.add(&amounts(&[("a", second)]));
            assert_eq!(total.to_text(), format!("a={sum}"), "{first} + {second}");
        }
    }

    #[test]
    fn malformed_quantities_are_left_out() {
        assert_eq!(
            amounts(&[("cpu", "much"), ("pods", "1")]).to_text(),
            "pods=1"
        );
    }
}
