#pragma once
/// @file
/// The ladder of AdamW as mixed precision has it: the model computes with bf16 parameters and
/// leaves bf16 gradients; the optimizer keeps a *master copy* of the parameters and both moments in
/// fp32. A step of a thousandth of a parameter would vanish in a bf16 parameter, whose neighbours
/// are 1/128 apart. Source: Micikevicius et al. 2018, "Mixed precision training", arXiv 1710.03740,
/// section 3.1; of the update: Loshchilov & Hutter 2019, arXiv 1711.05101, alg. 2.

#include "kernels/ladders/elements/adamw/adamw.hpp"
#include "kernels/simt/config.hpp"
#include "kernels/simt/executor.hpp"
#include "kernels/simt/small_floats.cuh"

/// @brief AdamW updates in mixed precision.
namespace ultra::kernels::adamw_bf16 {

/// @brief One step, in place: the ladder adamw's formula on master, then parameter = bf16(master).
/// Arrays are contiguous and aligned to 16 bytes.
struct Problem {
  /// @brief Parameters.
  int n;
  /// @brief [n], written: what the model computes with.
  simt::bf16* parameter;
  /// @brief [n].
  const simt::bf16* gradient;
  /// @brief [n] parameters in fp32, updated.
  float* master;
  /// @brief [n] mean of gradients, updated.
  float* first_moment;
  /// @brief [n] mean of squared gradients, updated.
  float* second_moment;
  /// @brief The step's constants.
  adamw::Constants constants;
};

/// @brief Rung 1: a kernel for the update, another one that rounds the master copy.
template <simt::Executor executor>
void two_kernels(const Problem& problem, const simt::Queue& queue);

/// @brief Rung 2: one kernel, four parameters per thread.
template <simt::Executor executor>
void fused(const Problem& problem, const simt::Queue& queue);

}  // namespace ultra::kernels::adamw_bf16
