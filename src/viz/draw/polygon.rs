//! Polygons: triangulation for the graphics card, and whether a point lies inside.

use super::scene::Point;

/// Triangulates a simple polygon by ear clipping; one that crosses itself is only filled in part.
pub fn triangles(points: &[Point]) -> Vec<[Point; 3]> {
    let turn = |a: Point, b: Point, c: Point| (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
    let mut ring: Vec<Point> = points.to_vec();
    ring.dedup();
    let signed_area: f32 = (0..ring.len()).map(|i| turn([0.0; 2], ring[i], ring[(i + 1) % ring.len()])).sum();
    if signed_area < 0.0 {
        ring.reverse();
    }
    let mut triangles = Vec::with_capacity(ring.len());
    let mut at = 0;
    let mut misses = 0;
    while ring.len() > 3 && misses <= ring.len() {
        let n = ring.len();
        let (a, b, c) = (ring[(at + n - 1) % n], ring[at % n], ring[(at + 1) % n]);
        let area = turn(a, b, c);
        let inside = |p: &Point| {
            *p != a
                && *p != b
                && *p != c
                && turn(a, b, *p) >= 0.0
                && turn(b, c, *p) >= 0.0
                && turn(c, a, *p) >= 0.0
        };
        if area <= 0.0 && area > -1e-6 {
            ring.remove(at % n); // collinear: nothing to fill
            misses = 0;
        } else if area > 0.0 && !ring.iter().any(inside) {
            triangles.push([a, b, c]);
            ring.remove(at % n);
            misses = 0;
        } else {
            at += 1;
            misses += 1;
        }
        at %= ring.len();
    }
    if let [a, b, c] = ring[..] {
        triangles.push([a, b, c]);
    }
    triangles
}

/// Whether `p` lies inside an outline, which may cross itself (even-odd rule).
pub fn contains(outline: &[Point], p: Point) -> bool {
    let edges = outline.iter().zip(outline.iter().cycle().skip(1));
    let crossed = edges.filter(|(a, b)| {
        (a[1] > p[1]) != (b[1] > p[1]) && p[0] > a[0] + (p[1] - a[1]) / (b[1] - a[1]) * (b[0] - a[0])
    });
    !crossed.count().is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_a_hollow_outline_is_told_from_what_lies_in_the_hollow() {
        let cup =
            [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [3.0, 4.0], [3.0, 1.0], [1.0, 1.0], [1.0, 4.0], [0.0, 4.0]];
        let inside = [[0.5, 2.0], [3.5, 2.0], [2.0, 0.5], [3.5, 3.9]];
        let outside = [[2.0, 2.0], [-0.5, 0.5], [4.5, 2.0], [2.0, -0.1], [0.5, 4.1]];
        assert!(inside.iter().all(|p| contains(&cup, *p)) && !outside.iter().any(|p| contains(&cup, *p)));
        assert!(!contains(&[], [0.0, 0.0]) && !contains(&[[0.0, 0.0], [2.0, 2.0]], [1.0, 1.0]));
    }

    fn area(t: &[[Point; 3]]) -> f32 {
        t.iter()
            .map(|[a, b, c]| ((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])).abs() / 2.0)
            .sum()
    }

    #[test]
    fn a_hollow_polygon_is_filled_exactly() {
        // A comb, as an outline of bars is: 3 teeth of 1 x 2 on a base of 5 x 1, either way round.
        let (xs, ys) = ([0, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0], [0, 0, 3, 3, 1, 1, 3, 3, 1, 1, 3, 3]);
        let mut points: Vec<Point> = xs.iter().zip(ys).map(|(x, y)| [*x as f32, y as f32]).collect();
        assert!((area(&triangles(&points)) - 11.0).abs() < 1e-4);
        points.reverse();
        assert!((area(&triangles(&points)) - 11.0).abs() < 1e-4);
    }
}
