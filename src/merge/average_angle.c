/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coefficients on a sphere. The functions of an angle are computed here, since the library does without libm: by halving
 * or dividing by three until a short series is as precise as a double.
 */
#include "average.h"
#include "root.h"

#define AVERAGE_PI 3.14159265358979323846
#define AVERAGE_NEARLY_PARALLEL 0.9995
#define AVERAGE_MIN_LENGTH 1e-8

/* From 0 to 1. Halved twice, the tangent is below 0.2, where 12 terms are enough. */
static double average_arctangent(double tangent)
{
    for (unsigned i = 0; i < 2; i++) {
        tangent = tangent / (1 + coffer__root(1 + tangent * tangent));
    }
    const double square = tangent * tangent;
    double sum = 0;
    for (int k = 12; k >= 0; k--) {
        sum = 1.0 / (2 * k + 1) - square * sum;
    }
    return 4 * tangent * sum;
}

/* Of a cosine that is not near 1 or -1. */
static double average_arccosine(double cosine)
{
    const double size = cosine < 0 ? -cosine : cosine;
    const double half = 2 * average_arctangent(coffer__root((1 - size) / (1 + size)));
    return cosine < 0 ? AVERAGE_PI - half : half;
}

/* Of an angle from 0 to pi. A third of it is at most pi / 6, where 9 terms are enough. */
static double average_sine(double angle)
{
    const double third = (angle > AVERAGE_PI / 2 ? AVERAGE_PI - angle : angle) / 3;
    const double square = third * third;
    double sum = 0;
    for (int k = 9; k >= 0; k--) {
        sum = 1 - square / ((2 * k + 2) * (2 * k + 3)) * sum;
    }
    const double sine = third * sum;
    return 3 * sine - 4 * sine * sine * sine;
}

static double average_length(double square)
{
    const double length = coffer__root(square);
    return length > AVERAGE_MIN_LENGTH ? length : 1;
}

void coffer__average_angle(const coffer__average_sums *sums, double t, double coefficients[2])
{
    const double cosine = sums->both / (average_length(sums->first) * average_length(sums->second));
    coefficients[0] = 1 - t;
    coefficients[1] = t;
    /* NaN, of tensors that have some, is on this side. */
    if (!(cosine >= -AVERAGE_NEARLY_PARALLEL && cosine <= AVERAGE_NEARLY_PARALLEL)) {
        return;
    }
    const double angle = average_arccosine(cosine);
    const double sine = average_sine(angle);
    coefficients[0] = average_sine((1 - t) * angle) / sine;
    coefficients[1] = average_sine(t * angle) / sine;
}
