//! Marks that tell Cluster API when a Machine goes: ours are leases, written as the values of their annotations.

use kube::core::DynamicObject;
use rollout::{MachineMark, Marked};

use crate::objects::fields::annotation;

/// Whose annotation this is; none where it is not there. What cannot be read as a lease of ours is somebody else's.
pub(crate) fn marked(object: &DynamicObject, key: &str) -> Option<Marked> {
    let text = annotation(object, key)?;
    let mark = serde_json::from_str::<MachineMark>(text).ok().filter(|mark| mark.owner == MachineMark::OWNER);
    Some(mark.map_or(Marked::Others, |mark| Marked::Us { mark }))
}

#[cfg(test)]
mod tests {
    use rollout::DELETE_FIRST;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mark_is_ours_by_what_it_says_alone() {
        let read = |value: &str| {
            let object = json!({"metadata": {"name": "a", "annotations": {DELETE_FIRST: value}}});
            marked(&serde_json::from_value(object).unwrap(), DELETE_FIRST)
        };
        for of_others in ["", "true", "{}", r#"{"owner": "stepgate"}"#] {
            assert_eq!(read(of_others), Some(Marked::Others), "{of_others}");
        }
        let lease = r#""rollout": "0123456789ab", "reason": "a", "since": "2026-03-01T12:00:00Z", "until": "2026-03-01T14:00:00Z"}"#;
        assert!(read(&format!(r#"{{"owner": "stepgate", {lease}"#)).unwrap().ours().is_some());
        assert_eq!(read(&format!(r#"{{"owner": "jane", {lease}"#)), Some(Marked::Others));
        let nothing = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(marked(&nothing, DELETE_FIRST), None);
    }
}
