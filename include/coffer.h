/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer.h - tensors, kept safe: the whole public API of libcoffer, by topic.
 *
 *   coffer/base.h        the version, how a call fails, memory, progress
 *   coffer/table.h       bytes only: dtypes, formats, the header of a file parsed to a table
 *   coffer/header.h      bytes only: a header under construction
 *   coffer/numbers.h     bytes only: statistics, histograms, distributions and comparisons of tensors
 *   coffer/hash.h        bytes only: digests and what computes them
 *   coffer/model.h       models: coffer_open*, look-up, metadata, zero-copy data, reading, slicing
 *   coffer/write.h       writing: declare every tensor, push bodies in any order, publish atomically
 *   coffer/edit.h        editing: metadata of a file changed in place
 *   coffer/rewrite.h     models written again: renamed, cast, aligned, without some tensors, in another format
 *   coffer/pack.h        packed files: the same tensors, without loss, in fewer bytes
 *   coffer/merge.h         models computed from others: adapters merged and extracted, averages
 *   coffer/quantised.h   quantised models written as plain ones
 *   coffer/convert.h     files of other programs: read without running anything of them, written as safetensors
 *   coffer/integrity.h   digests of tensors and models: computing, recording, verifying
 *   coffer/manifest.h    digests of files, kept next to them, signed or not
 *   coffer/doctor.h      what is wrong with a model and its folder, and what fixes it
 *   coffer/fetch.h       models from elsewhere, downloaded
 *   coffer/load.h        loading: many tensors or parts of them, into host or device memory, in the background
 *
 * This file is all that a program includes. Where the topics lie next to it, each of them can be included alone, too.
 */
#ifndef COFFER_H
#define COFFER_H

#include "coffer/base.h"
#include "coffer/convert.h"
#include "coffer/doctor.h"
#include "coffer/edit.h"
#include "coffer/fetch.h"
#include "coffer/hash.h"
#include "coffer/header.h"
#include "coffer/integrity.h"
#include "coffer/load.h"
#include "coffer/manifest.h"
#include "coffer/merge.h"
#include "coffer/model.h"
#include "coffer/numbers.h"
#include "coffer/pack.h"
#include "coffer/quantised.h"
#include "coffer/rewrite.h"
#include "coffer/table.h"
#include "coffer/write.h"

#endif
