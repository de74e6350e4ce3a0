//! The manifest of a chart in a registry.

use bundles::Digest;
use serde::Deserialize;

/// What is asked for; a chart has an OCI manifest and nothing else.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json";

/// The packed chart (HIP-0006 of Helm).
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
    size: u64,
}

/// Where the packed chart lies.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChartLayer {
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

/// The layer with the packed chart.
pub(super) fn chart_layer(manifest: &[u8]) -> Result<ChartLayer, String> {
    let manifest: Manifest =
        serde_json::from_slice(manifest).map_err(|error| format!("its manifest cannot be read: {error}"))?;
    let mut charts = manifest.layers.iter().filter(|layer| layer.media_type == CHART);
    let (Some(layer), None) = (charts.next(), charts.next()) else {
        return Err("it is no Helm chart: its manifest does not name one packed chart".to_owned());
    };
    // The parser takes bare digits as well; here they would not say which algorithm made them.
    let digest = Some(&layer.digest).filter(|digest| digest.starts_with("sha256:")).and_then(|it| it.parse().ok());
    let digest = digest
        .ok_or_else(|| format!("its manifest names the digest {:?}, which is not a sha256 digest", layer.digest))?;
    Ok(ChartLayer { digest, size: layer.size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_one_packed_layer() {
        let digest = Digest::of(b"chart");
        let layer = |kind: &str, digest: &str| format!(r#"{{"mediaType": "{kind}", "digest": "{digest}", "size": 5}}"#);
        let manifest = |layers: &[String]| format!(r#"{{"schemaVersion": 2, "layers": [{}]}}"#, layers.join(", "));
        let chart = layer(CHART, &digest.to_string());
        let provenance = layer("application/vnd.cncf.helm.chart.provenance.v1.prov", &digest.to_string());
        let found = chart_layer(manifest(&[provenance.clone(), chart.clone()]).as_bytes());
        assert_eq!(found, Ok(ChartLayer { digest, size: 5 }));
        for (text, part) in [
            (manifest(&[provenance]), "no Helm chart"),
            (manifest(&[chart.clone(), chart]), "no Helm chart"),
            (manifest(&[layer(CHART, "sha512:00")]), "not a sha256"),
            (manifest(&[layer(CHART, &"0".repeat(64))]), "not a sha256"),
            (r#"{"manifests": []}"#.to_owned(), "no Helm chart"),
            ("[".to_owned(), "cannot be read"),
        ] {
            let error = chart_layer(text.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
