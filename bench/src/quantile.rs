//! What a part of many figures does not exceed.

/// What this part of the figures does not exceed: the median for 0.5. No number if there are none.
pub(crate) fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_unstable_by(f64::total_cmp);
    let place = (figures.len() as f64 * part) as usize;
    figures.get(place.min(figures.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
