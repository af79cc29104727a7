#pragma once

#include <lockstep/models.h>

namespace lockstep::models {

/// Logits [..., vocabulary] of features [..., width]; the scope is the gpt's.
Array gpt_head(const Scope& scope, const Array& features, const GptOptions& options);

}  // namespace lockstep::models
