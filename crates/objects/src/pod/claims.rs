//! The ResourceClaims of pods and PodGroups. Upstream: `k8s.io/dynamic-resource-allocation/resourceclaim`.

use steersman_values::intern::Sym;

use super::{Pod, PodResourceClaim, PodResourceClaimStatus};

/// The ResourceClaim of a claim within a pod or a PodGroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodClaimName<'a> {
    /// The spec names the ResourceClaim.
    Named(&'a Sym),
    /// The ResourceClaim was made from a template. It counts only for its owner.
    Generated(&'a Sym),
    /// It needs no ResourceClaim.
    NotNeeded,
    /// The status lacks the ResourceClaim, which a template describes.
    NotCreated,
    /// The claim names neither a ResourceClaim nor a template.
    Unsupported,
}

impl<'a> PodClaimName<'a> {
    /// The ResourceClaim of `claim`, by the `statuses` of the same object. Upstream: `Name` and
    /// `NameFromPodGroup`.
    pub(crate) fn of(claim: &'a PodResourceClaim, statuses: &'a [PodResourceClaimStatus]) -> Self {
        if let Some(name) = &claim.resource_claim_name {
            return Self::Named(name);
        }
        if claim.resource_claim_template_name.is_none() {
            return Self::Unsupported;
        }
        match statuses.iter().find(|status| status.name == claim.name) {
            None => Self::NotCreated,
            Some(status) => match &status.resource_claim_name {
                Some(name) => Self::Generated(name),
                None => Self::NotNeeded,
            },
        }
    }

    /// The name, if it is known.
    pub fn known(self) -> Option<&'a Sym> {
        match self {
            Self::Named(name) | Self::Generated(name) => Some(name),
            Self::NotNeeded | Self::NotCreated | Self::Unsupported => None,
        }
    }
}

impl Pod {
    /// The ResourceClaim of `claim`, one of `spec.resourceClaims`.
    pub fn claim_name<'a>(&'a self, claim: &'a PodResourceClaim) -> PodClaimName<'a> {
        PodClaimName::of(claim, &self.details().resource_claim_statuses)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Object;

    #[test]
    fn the_status_names_the_claims_that_templates_describe() {
        let pod = json!({
            "metadata": {"name": "web-0", "namespace": "shop", "uid": "u"},
            "spec": {"resourceClaims": [
                {"name": "mine", "resourceClaimName": "shared"},
                {"name": "made", "resourceClaimTemplateName": "t"},
                {"name": "skipped", "resourceClaimTemplateName": "t"},
                {"name": "missing", "resourceClaimTemplateName": "t"},
                {"name": "newer"},
            ]},
            "status": {"resourceClaimStatuses": [
                {"name": "mine", "resourceClaimName": "ignored"},
                {"name": "made", "resourceClaimName": "web-0-made-x"},
                {"name": "skipped"},
            ]},
        });
        let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
        let shared = Sym::new("shared");
        let made = Sym::new("web-0-made-x");
        let expected = [
            PodClaimName::Named(&shared),
            PodClaimName::Generated(&made),
            PodClaimName::NotNeeded,
            PodClaimName::NotCreated,
            PodClaimName::Unsupported,
        ];
        let claims = pod.spec.resource_claims.iter();
        let names: Vec<_> = claims.map(|claim| pod.claim_name(claim)).collect();
        assert_eq!(names, expected);
        let known: Vec<_> = names.iter().filter_map(|name| name.known()).collect();
        assert_eq!(known, [&shared, &made]);
    }
}
