//! Images that a workload runs, beside those that it should run.

use bundles::ImageReference;
use rollout::RunningImage;

/// What a workload runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload<'a> {
    /// The images of its pod template.
    pub(super) template: &'a [String],
    /// What its pods say.
    pub(super) running: &'a [RunningImage],
}

/// How what runs differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImageDifference {
    /// Runs, and is not wanted.
    pub(super) running: Vec<String>,
    /// Is wanted, and does not run.
    pub(super) wanted: Vec<String>,
    /// Images of which no pod says the digest.
    pub(super) without_digest: Vec<String>,
}

impl Workload<'_> {
    /// Compares by digest: where the template names none, what the pods report counts.
    pub(super) fn compare(&self, wanted: &[String]) -> ImageDifference {
        let mut found = ImageDifference::default();
        let is_known = |image: &str, among: &[String]| among.iter().any(|other| is_image(image, other));
        found.running = self.template.iter().filter(|image| !is_known(image, wanted)).cloned().collect();
        for image in wanted {
            let Some(in_template) = self.template.iter().find(|known| is_image(known, image)) else {
                found.wanted.push(image.clone());
                continue;
            };
            let (Some(wanted), None) = (digest(image), digest(in_template)) else { continue };
            let reported = self.reported(in_template);
            match reported.iter().find(|reported| **reported != wanted) {
                Some(other) => {
                    found.running.push(format!("{in_template}@{other}"));
                    found.wanted.push(image.clone());
                }
                None if reported.is_empty() => found.without_digest.push(in_template.clone()),
                None => {}
            }
        }
        found
    }

    /// The digests that the pods report of an image.
    fn reported(&self, image: &str) -> Vec<String> {
        let Ok(image) = image.parse::<ImageReference>() else { return Vec::new() };
        let of_image = self.running.iter().filter(|running| {
            let reported = running.image.parse::<ImageReference>();
            !running.deleting && reported.is_ok_and(|reported| reported.repository() == image.repository())
        });
        of_image.filter_map(|running| running.digest.clone()).collect()
    }
}

fn digest(image: &str) -> Option<String> {
    Some(image.parse::<ImageReference>().ok()?.digest()?.to_string())
}

/// Whether two references are of one image: by digest where both have one, else by repository and tag.
fn is_image(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let (Ok(one), Ok(other)) = (one.parse::<ImageReference>(), other.parse::<ImageReference>()) else { return false };
    match (one.digest(), other.digest()) {
        (Some(one), Some(other)) => one == other,
        _ => one.repository() == other.repository() && one.tag() == other.tag(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_one_by_digest_or_else_by_tag() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        for (left, right, same) in [
            ("example.com/a:v1", "example.com/a:v1", true),
            ("example.com/a:v1", "example.com/a:v2", false),
            ("example.com/a:v1", "example.com/b:v1", false),
            (&format!("example.com/a:v1@sha256:{one}"), "example.com/a:v1", true),
            (&format!("example.com/a:v1@sha256:{one}"), &format!("example.com/a:v1@sha256:{two}"), false),
            (&format!("example.com/a:v1@sha256:{one}"), &format!("mirror.local/a:v1-1@sha256:{one}"), true),
            ("not an image", "example.com/a:v1", false),
        ] {
            assert_eq!(is_image(left, right), same, "{left} {right}");
        }
    }

    #[test]
    fn a_tag_is_the_image_that_its_pods_report() {
        let (tagged, one, two) = ("example.com/a:v1", "1".repeat(64), "2".repeat(64));
        let wanted = format!("{tagged}@sha256:{one}");
        let compare = |digest: Option<&str>| {
            let running = RunningImage {
                pod: "a-1".to_owned(),
                container: "a".to_owned(),
                image: tagged.to_owned(),
                digest: digest.map(|digest| format!("sha256:{digest}")),
                ready: true,
                waiting: None,
                deleting: false,
            };
            Workload { template: &[tagged.to_owned()], running: &[running] }.compare(std::slice::from_ref(&wanted))
        };
        assert_eq!(compare(Some(&one)), ImageDifference::default());
        let other = compare(Some(&two));
        assert_eq!((other.running, other.wanted), (vec![format!("{tagged}@sha256:{two}")], vec![wanted.clone()]));
        assert_eq!(compare(None).without_digest, [tagged]);
    }
}
