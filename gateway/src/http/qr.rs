//! The QR code that leads phones to a room.

use crate::app::App;
use crate::http::body::{Body, full};
use crate::http::error::ApiError;
use crate::http::rooms::{audience_link, open};
use hyper::Response;
use hyper::header::{self, HeaderValue};
use qrcode::render::svg;
use qrcode::{EcLevel, QrCode};
use std::net::IpAddr;

/// The least width, in pixels, for whoever shows it as it is; it is drawn in vectors and can be shown at any size.
const WIDTH_MIN: u32 = 240;

/// `GET /v1/rooms/CODE/qr.svg`
pub(crate) async fn draw(app: &App, typed: &str, from: IpAddr) -> Result<Response<Body>, ApiError> {
    let copy = open(app, typed, from).await?;
    let svg = svg(&audience_link(app, &copy.room().code))?;
    let mut response = Response::new(full(svg));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("image/svg+xml"),
    );
    // It changes with the setting public_url only.
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=300"),
    );
    Ok(response)
}

/// Dark on light whatever page it is shown on, and with the quiet zone of four modules: without either, cameras do not
/// find it. A quarter of it may be covered (level Q): it is filmed from the last row, over people's heads.
fn svg(link: &str) -> Result<String, ApiError> {
    let code = QrCode::with_error_correction_level(link, EcLevel::Q).map_err(|error| {
        ApiError::Internal(anyhow::Error::new(error).context("the link is too long for a QR code"))
    })?;
    let image = code
        .render::<svg::Color<'_>>()
        .quiet_zone(true)
        .dark_color(svg::Color("#000"))
        .light_color(svg::Color("#fff"))
        .min_dimensions(WIDTH_MIN, WIDTH_MIN)
        .build();
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_dark_on_light_with_a_quiet_zone() {
        let link = "https://uproar.example/PARTY7";
        let image = svg(link).unwrap();
        let modules = QrCode::with_error_correction_level(link, EcLevel::Q)
            .unwrap()
            .width();
        let modules = u32::try_from(modules).unwrap();
        let with_zone = modules + 8;
        let width = WIDTH_MIN.div_ceil(with_zone) * with_zone;
        assert!(
            image.contains(&format!(r#"viewBox="0 0 {width} {width}""#)),
            "{image}"
        );
        assert!(image.contains(&format!(
            r##"width="{width}" height="{width}" fill="#fff"/>"##
        )));
        assert!(image.contains(r##"<path fill="#000""##));
        // The first dark module is the corner of the finder pattern: four modules in from the edge.
        let zone = 4 * width / with_zone;
        assert!(image.contains(&format!("M{zone} {zone}h")), "{image}");
    }
}
