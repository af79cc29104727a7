// Layers, losses and optimizers whose options or inputs do not fit.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "tests/bad_inputs/extremes.h"
#include "tests/bad_inputs/rows.h"

namespace lockstep::tests {
namespace {

/// Variables of a layer are made for an input.
void init_of(const std::function<Array(Scope&, const Array&)>& layer, const Shape& shape, DType dtype = float32) {
  static_cast<void>(Model<Array, Array>(layer).init(random::key(0), ones(shape, dtype)));
}

/// Two classes with scores for four rows.
Array scores() { return ones({4, 2}); }

}  // namespace

TEST_CASE("bad inputs 134: layers") {
  all_refused(
      134,
      {[] {
         init_of([](Scope& s, const Array& x) { return dense(s["a"], x, {}); }, {1, 2});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return dense(s["a"], x, {.units = -1}); }, {1, 2});
       },
       [] { init_of([](Scope& s, const Array& x) { return dense(s["a"], x, {.units = 2}); }, {}); },
       [] {
         init_of([](Scope& s, const Array& x) { return dense(s["a"], x, {.units = 2}); }, {1, 2}, int32);
       },
       [] {
         init_of([](Scope& s, const Array& x) { return dense(s[""], x, {.units = 2}); }, {1, 2});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return conv2d(s["a"], x, {}); }, {1, 4, 4, 1});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return conv2d(s["a"], x, {.filters = 2}); }, {4, 4, 1});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return conv2d(s["a"], x, {.filters = 2, .groups = 3}); }, {1, 4, 4, 2});
       },
       [] {
         init_of(
             [](Scope& s, const Array& x) {
               return conv2d(s["a"], x, {.filters = 2, .strides = {0, 1}});
             },
             {1, 4, 4, 2});
       },
       [] {
         init_of(
             [](Scope& s, const Array& x) {
               return conv2d(s["a"], x, {.filters = 2, .kernel = {0, 1}});
             },
             {1, 4, 4, 2});
       },
       [] { init_of([](Scope& s, const Array& x) { return embedding(s["a"], x, {}); }, {3}, int32); },
       [] {
         init_of([](Scope& s, const Array& x) { return embedding(s["a"], x, {.vocabulary = 4, .features = 2}); }, {3});
       },
       [] {
         init_of([](Scope& s,
                    const Array& x) { return embedding(s["a"], x, {.vocabulary = 4, .features = 2, .dtype = int32}); },
                 {3}, int32);
       },
       [] {
         init_of([](Scope& s, const Array& x) { return batch_norm(s["a"], x, {.momentum = 2}); }, {2, 3});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return batch_norm(s["a"], x, {.epsilon = -1}); }, {2, 3});
       },
       [] { init_of([](Scope& s, const Array& x) { return batch_norm(s["a"], x); }, {}); },
       [] {
         init_of([](Scope& s, const Array& x) { return layer_norm(s["a"], x, {.epsilon = -1}); }, {2, 3});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return group_norm(s["a"], x, {.groups = 2}); }, {2, 3});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return group_norm(s["a"], x, {.groups = 0}); }, {2, 3});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return lstm(s["a"], x, {}); }, {1, 2, 3});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return lstm(s["a"], x, {.units = 2}); }, {1, 2});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return gru(s["a"], x, {}).first; }, {1, 2, 3});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return multi_head_attention(s["a"], x, {.heads = 3}); }, {1, 2, 4});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return multi_head_attention(s["a"], x, {.heads = 0}); }, {1, 2, 4});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return multi_head_attention(s["a"], x, {.heads = 2}); }, {2, 4});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return dropout(s["a"], x, 2.0); }, {2, 4});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return spatial_dropout(s["a"], x, -1.0); }, {2, 4, 1});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return alpha_dropout(s["a"], x, 1.0); }, {2, 4});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return gaussian_noise(s["a"], x, -1.0); }, {2, 4});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return gaussian_noise(s["a"], x, no_number); }, {2, 4});
       },
       [] {
         init_of([](Scope& s, const Array& x) { return lora(s["a"], x, {.rank = 0}); }, {2, 4});
       },
       [] {
         global_avg_pool(ones({2, 3}));
       },
       [] {
         adaptive_avg_pool(ones({1, 4, 1}), {0});
       },
       [] {
         adaptive_avg_pool(ones({1, 4, 1}), {2, 2});
       },
       [] {
         upsample(ones({1, 4, 1}), {0});
       },
       [] {
         resize(ones({1, 4, 1}), {0});
       },
       [] {
         rotary(ones({1, 2, 1, 3}));
       },
       [] { mel_spectrogram(ones({4}), {.fft_length = 0}); },
       [] { mel_spectrogram(ones({4}), {.bins = 0}); }});
}

TEST_CASE("bad inputs 135: losses") {
  const Array classes = zeros({4}, int32);
  all_refused(
      135,
      {[&] {
         mean_squared_error(scores(), ones({4, 3}));
       },
       [&] { mean_squared_error(scores(), scores(), ones({3})); }, [&] { mean_squared_error(ones({}), ones({})); },
       [&] {
         mean_absolute_error(scores(), ones({5, 2}));
       },
       [&] { softmax_cross_entropy(scores(), ones({4})); }, [&] { softmax_cross_entropy(scores(), zeros({3}, int32)); },
       [&] { softmax_cross_entropy(scores(), classes, ones({2})); }, [&] { softmax_cross_entropy(ones({}), classes); },
       [&] { weighted(ones({})); }, [&] { weighted(scores(), ones({3})); },
       [&] { weighted(scores(), complex(ones({4}), ones({4}))); }, [&] { l1_penalty(Tree(scores()), -1); },
       [&] { l2_penalty(Tree(scores()), no_number); }, [&] { l2_penalty(Tree(scores()), endless); },
       [&] { fill_masked_rows(Tree(scores()), ones({3})); },
       [&] {
         fill_masked_rows(Tree(scores()), ones({4, 1}));
       }});
  row(135, [&] {  // a dtype of classes need not hold their number
    const Array wide = random::normal(random::key(0), {3, 300});
    const Array narrow = array(std::vector<std::uint8_t>{1, 2, 255});
    const auto found = softmax_cross_entropy(wide, narrow).sum,
               expected = softmax_cross_entropy(wide, convert(narrow, int32)).sum;
    CHECK(found.to_bytes() == expected.to_bytes());
  });
}

TEST_CASE("bad inputs 136: optimizers and schedules") {
  all_refused(136, {[] { optim::sgd(-1); },
                    [] { optim::sgd(no_number); },
                    [] { optim::sgd(endless); },
                    [] { optim::sgd(0.1, 1.5); },
                    [] { optim::sgd(0.1, -0.5); },
                    [] { optim::adam(0.1, 1.0); },
                    [] { optim::adam(0.1, -0.1); },
                    [] { optim::adam(0.1, 0.9, 1.0); },
                    [] { optim::adam(0.1, 0.9, 0.999, -1); },
                    [] { optim::adam(0.1, no_number); },
                    [] { optim::adamw(0.1, 0.9, 0.999, 1e-8, -1); },
                    [] { optim::lion(0.1, 1.0); },
                    [] { optim::rmsprop(0.1, {.decay = 1}); },
                    [] { optim::rmsprop(0.1, {.epsilon = -1}); },
                    [] { optim::adagrad(0.1, -1); },
                    [] { optim::adadelta(0.1, 2); },
                    [] { optim::nadam(0.1, 1.0); },
                    [] { optim::adamax(0.1, 1.0); },
                    [] { optim::amsgrad(0.1, 0.9, 1.0); },
                    [] { optim::yogi(0.1, 1.0); },
                    [] { optim::adan(0.1, {.b1 = 1}); },
                    [] { optim::ademamix(0.1, {.b2 = 1}); },
                    [] { optim::clip_by_global_norm(-1); },
                    [] { optim::clip_by_global_norm(no_number); },
                    [] { optim::clip_by_value(-1); },
                    [] { optim::scale(no_number); },
                    [] { optim::trace(1.5); },
                    [] { optim::ema(1.0); },
                    [] { optim::add_decayed_weights(-1); },
                    [] { optim::clip_by_block_rms(-1); },
                    [] { optim::adaptive_grad_clip(-1); },
                    [] { optim::multi_steps(optim::sgd(0.1), 0); },
                    [] { optim::lookahead(optim::sgd(0.1), 0, 0.5); },
                    [] { optim::lookahead(optim::sgd(0.1), 2, no_number); },
                    [] { optim::average_parameters(1.5); },
                    [] { optim::apply_if_finite(optim::sgd(0.1), -1); },
                    [] { optim::moments_dtype(optim::sgd(0.1), int32); },
                    [] { schedules::cosine(0.1, 0); },
                    [] { schedules::warmup_cosine(0, 0.1, 10, 5); },
                    [] {
                      schedules::piecewise_constant({3, 2}, {1, 2, 3});
                    },
                    [] { schedules::piecewise_constant({3}, {1}); },
                    [] { schedules::linear(0, 1, -1); },
                    [] { schedules::exponential_decay(0.1, 0, 0.5); },
                    [] { schedules::join({}, {}); },
                    [] { schedules::join({schedules::constant(1)}, {5}); },
                    [] { schedules::cosine_restarts({}); },
                    [] { loss_scale_state({.initial = 0}); },
                    [] { loss_scale_state({.initial = no_number}); }});
}

TEST_CASE("bad inputs 137: draws") {
  const Array key = random::key(0);
  all_refused(137, {[&] { random::uniform(ones({2}), {2}); }, [&] { random::uniform(key, {2}, int32); },
                    [&] { random::normal(key, {2}, int32); }, [&] { random::randint(key, {2}, 0, 5, float32); },
                    [&] { random::bernoulli(key, 1.5, {2}); }, [&] { random::bernoulli(key, no_number, {2}); },
                    [&] { random::split(key, -1); }, [&] { random::split(ones({2}), 2); },
                    [&] { random::fold_in(ones({2}), 1); }, [&] { random::permutation(key, -3); },
                    [&] { random::choice(key, 0, {2}); }});
}

}  // namespace lockstep::tests
