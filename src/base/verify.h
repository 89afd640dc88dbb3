/* verify.h - whether stages look at what they made, and what becomes of a fault that they find.
 *
 *     Debug builds, fuzz targets     always               one line on stderr; the process ends
 *     other builds                   with PHASOR_VERIFY=1   the verifier's status and message
 *
 * A verifier finds faults of Phasor's own. What a file, a caller or a driver can cause is found by
 * the stages themselves, which return a status in every build.
 */
#pragma once
#include "base/status.h"

#include <stdbool.h>

bool verify_is_wanted(void);
/* What a verifier said of the result of a stage, with the stage's name before its message. Memory
 * that ran out is no fault: it stays a status everywhere. */
phasor_status verify_result(phasor_status status, const char *stage);
