/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the globals of pickles are: a sorted table of exact names, and the modules and classes that are known whole.
 *
 *   1. a name in the table           what its row says
 *   2. a package that runs code      DANGEROUS: all that it has (pickle_dangers.h), and what a dotted name reaches of one
 *   3. a class of torch.nn or torch.optim    HARMLESS
 *   4. anything else                 UNKNOWN
 *
 * In this order, so that single names of a dangerous module can be judged by themselves.
 */
#include "pickle_names.h"

#include "pickle_dangers.h"
#include "sort.h"
#include "text.h"

#include <string.h>

/* What an element is in safetensors, its size, the unit of its byte order, and torch's name for it. Complex
   numbers are the only ones whose unit is not their size; safetensors has complex64 alone of them. */
static const coffer__element_facts element_rows[] = {
    [COFFER__ELEMENT_NONE] = { COFFER_UNKNOWN_DTYPE, 1, 1, "nothing" },
    [COFFER__ELEMENT_BOOL] = { COFFER_BOOL, 1, 1, "bool" },
    [COFFER__ELEMENT_U8] = { COFFER_U8, 1, 1, "uint8" },
    [COFFER__ELEMENT_I8] = { COFFER_I8, 1, 1, "int8" },
    [COFFER__ELEMENT_I16] = { COFFER_I16, 2, 2, "int16" },
    [COFFER__ELEMENT_U16] = { COFFER_U16, 2, 2, "uint16" },
    [COFFER__ELEMENT_F16] = { COFFER_F16, 2, 2, "float16" },
    [COFFER__ELEMENT_BF16] = { COFFER_BF16, 2, 2, "bfloat16" },
    [COFFER__ELEMENT_I32] = { COFFER_I32, 4, 4, "int32" },
    [COFFER__ELEMENT_U32] = { COFFER_U32, 4, 4, "uint32" },
    [COFFER__ELEMENT_F32] = { COFFER_F32, 4, 4, "float32" },
    [COFFER__ELEMENT_I64] = { COFFER_I64, 8, 8, "int64" },
    [COFFER__ELEMENT_U64] = { COFFER_U64, 8, 8, "uint64" },
    [COFFER__ELEMENT_F64] = { COFFER_F64, 8, 8, "float64" },
    [COFFER__ELEMENT_C32] = { COFFER_UNKNOWN_DTYPE, 4, 2, "complex32" },
    [COFFER__ELEMENT_C64] = { COFFER_C64, 8, 4, "complex64" },
    [COFFER__ELEMENT_C128] = { COFFER_UNKNOWN_DTYPE, 16, 8, "complex128" },
    [COFFER__ELEMENT_F8_E4M3FN] = { COFFER_F8_E4M3, 1, 1, "float8_e4m3fn" },
    [COFFER__ELEMENT_F8_E4M3FNUZ] = { COFFER_F8_E4M3FNUZ, 1, 1, "float8_e4m3fnuz" },
    [COFFER__ELEMENT_F8_E5M2] = { COFFER_F8_E5M2, 1, 1, "float8_e5m2" },
    [COFFER__ELEMENT_F8_E5M2FNUZ] = { COFFER_F8_E5M2FNUZ, 1, 1, "float8_e5m2fnuz" },
    [COFFER__ELEMENT_F8_E8M0FNU] = { COFFER_F8_E8M0, 1, 1, "float8_e8m0fnu" },
    [COFFER__ELEMENT_F4_X2] = { COFFER_F4, 1, 1, "float4_e2m1fn_x2" },
    [COFFER__ELEMENT_BYTE] = { COFFER_UNKNOWN_DTYPE, 1, 1, "a type of single bytes" },
    [COFFER__ELEMENT_BITS16] = { COFFER_UNKNOWN_DTYPE, 2, 2, "bits16" },
    [COFFER__ELEMENT_Q8] = { COFFER_UNKNOWN_DTYPE, 1, 1, "a quantised type" },
    [COFFER__ELEMENT_Q32] = { COFFER_UNKNOWN_DTYPE, 4, 4, "a quantised type" },
};

/* Every element has a row, ELEMENT_NONE as well: its size of 1 lets products be made before a lack is told. */
const coffer__element_facts *coffer__element_facts_of(coffer__element element)
{
    return &element_rows[element];
}

/* A global by its two names, as a pickle has them after Python 2's renamings. */
typedef struct known_row {
    const char *module;
    const char *name;
    coffer__known known;
} known_row;

/* clang-format off */
#define KNOWN(meaning, element) { COFFER__GLOBAL_INTERPRETED, COFFER__MEANS_##meaning, COFFER__ELEMENT_##element }
#define DANGEROUS(meaning) { COFFER__GLOBAL_DANGEROUS, COFFER__MEANS_##meaning, COFFER__ELEMENT_NONE }
#define LACKING { COFFER__GLOBAL_LACKING, COFFER__MEANS_NOTHING, COFFER__ELEMENT_NONE }
#define HARMLESS { COFFER__GLOBAL_HARMLESS, COFFER__MEANS_NOTHING, COFFER__ELEMENT_NONE }

/* Sorted by module, then by name, both as bytes. */
static const known_row known_rows[] = {
    { "_codecs", "encode", KNOWN(ENCODE, NONE) },
    { "argparse", "Namespace", HARMLESS },
    { "array", "_array_reconstructor", HARMLESS },
    { "array", "array", HARMLESS },
    /*
     * builtins: types of data are understood. What runs code, reaches attributes, opens files or makes types is
     * dangerous, and so is what calls a function that it is given (filter, map): a pickle would give it another
     * name of this table. Builtins that are in no row are unknown, as anything else is.
     */
    { "builtins", "__import__", DANGEROUS(NOTHING) },
    { "builtins", "apply", DANGEROUS(NOTHING) },
    { "builtins", "bool", KNOWN(NUMBER, NONE) },
    { "builtins", "breakpoint", DANGEROUS(NOTHING) },
    { "builtins", "bytearray", KNOWN(BYTES, NONE) },
    { "builtins", "bytes", KNOWN(BYTES, NONE) },
    { "builtins", "callable", DANGEROUS(NOTHING) },
    { "builtins", "classmethod", DANGEROUS(NOTHING) },
    { "builtins", "compile", DANGEROUS(NOTHING) },
    { "builtins", "complex", KNOWN(NUMBER, NONE) },
    { "builtins", "delattr", DANGEROUS(NOTHING) },
    { "builtins", "dict", KNOWN(MAPPING, NONE) },
    { "builtins", "eval", DANGEROUS(EVAL) },
    { "builtins", "exec", DANGEROUS(NOTHING) },
    { "builtins", "execfile", DANGEROUS(NOTHING) },
    { "builtins", "exit", DANGEROUS(NOTHING) },
    { "builtins", "file", DANGEROUS(NOTHING) },
    { "builtins", "filter", DANGEROUS(NOTHING) },
    { "builtins", "float", KNOWN(NUMBER, NONE) },
    { "builtins", "frozenset", KNOWN(SET, NONE) },
    { "builtins", "getattr", DANGEROUS(NOTHING) },
    { "builtins", "globals", DANGEROUS(NOTHING) },
    { "builtins", "help", DANGEROUS(NOTHING) },
    { "builtins", "input", DANGEROUS(NOTHING) },
    { "builtins", "int", KNOWN(NUMBER, NONE) },
    { "builtins", "list", KNOWN(SEQUENCE, NONE) },
    { "builtins", "locals", DANGEROUS(NOTHING) },
    { "builtins", "long", KNOWN(NUMBER, NONE) },
    { "builtins", "map", DANGEROUS(NOTHING) },
    { "builtins", "memoryview", DANGEROUS(NOTHING) },
    { "builtins", "object", KNOWN(NUMBER, NONE) },
    { "builtins", "open", DANGEROUS(NOTHING) },
    { "builtins", "property", DANGEROUS(NOTHING) },
    { "builtins", "quit", DANGEROUS(NOTHING) },
    { "builtins", "range", KNOWN(NUMBER, NONE) },
    { "builtins", "reload", DANGEROUS(NOTHING) },
    { "builtins", "set", KNOWN(SET, NONE) },
    { "builtins", "setattr", DANGEROUS(NOTHING) },
    { "builtins", "slice", KNOWN(NUMBER, NONE) },
    { "builtins", "staticmethod", DANGEROUS(NOTHING) },
    { "builtins", "str", KNOWN(NUMBER, NONE) },
    { "builtins", "super", DANGEROUS(NOTHING) },
    { "builtins", "tuple", KNOWN(SEQUENCE, NONE) },
    { "builtins", "type", DANGEROUS(NOTHING) },
    { "builtins", "unicode", KNOWN(NUMBER, NONE) },
    { "builtins", "vars", DANGEROUS(NOTHING) },
    /* Mappings are read by their pairs. namedtuple makes a class out of text, which it executes. */
    { "collections", "Counter", KNOWN(MAPPING, NONE) },
    { "collections", "OrderedDict", KNOWN(MAPPING, NONE) },
    { "collections", "defaultdict", KNOWN(MAPPING, NONE) },
    { "collections", "deque", HARMLESS },
    { "collections", "namedtuple", DANGEROUS(NOTHING) },
    { "copyreg", "__newobj__", HARMLESS },
    { "copyreg", "__newobj_ex__", HARMLESS },
    /*
     * How protocols 0 and 1 make an object of any class. The class is an import of its own, and is judged as
     * that.
     */
    { "copyreg", "_reconstructor", HARMLESS },
    { "datetime", "date", HARMLESS },
    { "datetime", "datetime", HARMLESS },
    { "datetime", "time", HARMLESS },
    { "datetime", "timedelta", HARMLESS },
    { "datetime", "timezone", HARMLESS },
    { "decimal", "Decimal", HARMLESS },
    { "fractions", "Fraction", HARMLESS },
    { "functools", "partial", HARMLESS },
    { "logging", "getLogger", HARMLESS },
    /*
     * Types that NumPy does not have itself, by the class that pickles name. Those of less than a byte, and
     * those that safetensors lacks, have elements of a byte and no dtype.
     */
    { "ml_dtypes", "bfloat16", KNOWN(DTYPE, BF16) },
    { "ml_dtypes", "float4_e2m1fn", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "float6_e2m3fn", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "float6_e3m2fn", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "float8_e3m4", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "float8_e4m3", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "float8_e4m3b11fnuz", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "float8_e4m3fn", KNOWN(DTYPE, F8_E4M3FN) },
    { "ml_dtypes", "float8_e4m3fnuz", KNOWN(DTYPE, F8_E4M3FNUZ) },
    { "ml_dtypes", "float8_e5m2", KNOWN(DTYPE, F8_E5M2) },
    { "ml_dtypes", "float8_e5m2fnuz", KNOWN(DTYPE, F8_E5M2FNUZ) },
    { "ml_dtypes", "float8_e8m0fnu", KNOWN(DTYPE, F8_E8M0FNU) },
    { "ml_dtypes", "int1", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "int2", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "int4", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "uint1", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "uint2", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes", "uint4", KNOWN(DTYPE, BYTE) },
    { "ml_dtypes._custom_floats", "bfloat16", KNOWN(DTYPE, BF16) },
    { "ml_dtypes._custom_floats", "float8_e4m3fn", KNOWN(DTYPE, F8_E4M3FN) },
    { "ml_dtypes._custom_floats", "float8_e5m2", KNOWN(DTYPE, F8_E5M2) },
    { "numpy", "DataSource", DANGEROUS(NOTHING) },
    { "numpy", "apply_along_axis", DANGEROUS(NOTHING) },
    { "numpy", "apply_over_axes", DANGEROUS(NOTHING) },
    /*
     * NumPy 2 calls its core numpy._core, and 1 numpy.core: files of both are read. What opens files is
     * dangerous, numpy.load the more so as it unpickles.
     */
    { "numpy", "dtype", KNOWN(NUMPY_DTYPE, NONE) },
    { "numpy", "fromfile", DANGEROUS(NOTHING) },
    { "numpy", "fromfunction", DANGEROUS(NOTHING) },
    { "numpy", "frompyfunc", DANGEROUS(NOTHING) },
    { "numpy", "fromregex", DANGEROUS(NOTHING) },
    { "numpy", "genfromtxt", DANGEROUS(NOTHING) },
    { "numpy", "info", DANGEROUS(NOTHING) },
    { "numpy", "load", DANGEROUS(NOTHING) },
    { "numpy", "loadtxt", DANGEROUS(NOTHING) },
    { "numpy", "lookfor", DANGEROUS(NOTHING) },
    { "numpy", "memmap", DANGEROUS(NOTHING) },
    { "numpy", "ndarray", KNOWN(ARRAY_TYPE, NONE) },
    { "numpy", "piecewise", DANGEROUS(NOTHING) },
    { "numpy", "save", DANGEROUS(NOTHING) },
    { "numpy", "savetxt", DANGEROUS(NOTHING) },
    { "numpy", "savez", DANGEROUS(NOTHING) },
    { "numpy", "savez_compressed", DANGEROUS(NOTHING) },
    { "numpy", "source", DANGEROUS(NOTHING) },
    { "numpy", "test", DANGEROUS(NOTHING) },
    { "numpy", "vectorize", DANGEROUS(NOTHING) },
    { "numpy._core.multiarray", "_reconstruct", KNOWN(RECONSTRUCT, NONE) },
    { "numpy._core.multiarray", "scalar", KNOWN(SCALAR, NONE) },
    { "numpy._core.numeric", "_frombuffer", KNOWN(FROM_BUFFER, NONE) },
    { "numpy.core.multiarray", "_reconstruct", KNOWN(RECONSTRUCT, NONE) },
    { "numpy.core.multiarray", "ndarray", KNOWN(ARRAY_TYPE, NONE) },
    { "numpy.core.multiarray", "scalar", KNOWN(SCALAR, NONE) },
    { "numpy.core.numeric", "_frombuffer", KNOWN(FROM_BUFFER, NONE) },
    { "numpy.ma.core", "_mareconstruct", LACKING },
    { "numpy.random._generator", "Generator", HARMLESS },
    { "numpy.random._mt19937", "MT19937", HARMLESS },
    { "numpy.random._pcg64", "PCG64", HARMLESS },
    { "numpy.random._pcg64", "PCG64DXSM", HARMLESS },
    { "numpy.random._philox", "Philox", HARMLESS },
    { "numpy.random._pickle", "__bit_generator_ctor", HARMLESS },
    { "numpy.random._pickle", "__generator_ctor", HARMLESS },
    { "numpy.random._pickle", "__randomstate_ctor", HARMLESS },
    { "numpy.random._sfc64", "SFC64", HARMLESS },
    { "numpy.random.bit_generator", "SeedSequence", HARMLESS },
    { "numpy.random.bit_generator", "__pyx_unpickle_SeedSequence", HARMLESS },
    { "numpy.random.mtrand", "RandomState", HARMLESS },
    { "pathlib", "Path", HARMLESS },
    { "pathlib", "PosixPath", HARMLESS },
    { "pathlib", "PurePath", HARMLESS },
    { "pathlib", "PurePosixPath", HARMLESS },
    { "pathlib", "PureWindowsPath", HARMLESS },
    { "pathlib", "WindowsPath", HARMLESS },
    { "pathlib._local", "Path", HARMLESS },
    { "pathlib._local", "PosixPath", HARMLESS },
    { "pathlib._local", "PurePath", HARMLESS },
    { "pathlib._local", "PurePosixPath", HARMLESS },
    { "pathlib._local", "PureWindowsPath", HARMLESS },
    { "pathlib._local", "WindowsPath", HARMLESS },
    { "random", "Random", HARMLESS },
    { "torch", "BFloat16Storage", KNOWN(STORAGE, BF16) },
    { "torch", "BoolStorage", KNOWN(STORAGE, BOOL) },
    { "torch", "ByteStorage", KNOWN(STORAGE, U8) },
    { "torch", "ByteTensor", KNOWN(DETAIL, NONE) },
    { "torch", "CharStorage", KNOWN(STORAGE, I8) },
    { "torch", "CharTensor", KNOWN(DETAIL, NONE) },
    { "torch", "ComplexDoubleStorage", KNOWN(STORAGE, C128) },
    { "torch", "ComplexFloatStorage", KNOWN(STORAGE, C64) },
    { "torch", "DoubleStorage", KNOWN(STORAGE, F64) },
    { "torch", "DoubleTensor", KNOWN(DETAIL, NONE) },
    { "torch", "FloatStorage", KNOWN(STORAGE, F32) },
    { "torch", "FloatTensor", KNOWN(DETAIL, NONE) },
    { "torch", "HalfStorage", KNOWN(STORAGE, F16) },
    { "torch", "HalfTensor", KNOWN(DETAIL, NONE) },
    { "torch", "IntStorage", KNOWN(STORAGE, I32) },
    { "torch", "IntTensor", KNOWN(DETAIL, NONE) },
    { "torch", "LongStorage", KNOWN(STORAGE, I64) },
    { "torch", "LongTensor", KNOWN(DETAIL, NONE) },
    { "torch", "QInt32Storage", KNOWN(STORAGE, Q32) },
    { "torch", "QInt8Storage", KNOWN(STORAGE, Q8) },
    { "torch", "QUInt2x4Storage", KNOWN(STORAGE, Q8) },
    { "torch", "QUInt4x2Storage", KNOWN(STORAGE, Q8) },
    { "torch", "QUInt8Storage", KNOWN(STORAGE, Q8) },
    { "torch", "ShortStorage", KNOWN(STORAGE, I16) },
    { "torch", "ShortTensor", KNOWN(DETAIL, NONE) },
    { "torch", "Size", KNOWN(SIZE, NONE) },
    { "torch", "Tensor", KNOWN(TENSOR_TYPE, NONE) },
    { "torch", "TypedStorage", KNOWN(STORAGE, U8) },
    { "torch", "UntypedStorage", KNOWN(STORAGE, U8) },
    { "torch", "bfloat16", KNOWN(DTYPE, BF16) },
    { "torch", "bits16", KNOWN(DTYPE, BITS16) },
    { "torch", "bits1x8", KNOWN(DTYPE, BYTE) },
    { "torch", "bits2x4", KNOWN(DTYPE, BYTE) },
    { "torch", "bits4x2", KNOWN(DTYPE, BYTE) },
    { "torch", "bits8", KNOWN(DTYPE, BYTE) },
    { "torch", "bool", KNOWN(DTYPE, BOOL) },
    { "torch", "channels_last", KNOWN(DETAIL, NONE) },
    { "torch", "channels_last_3d", KNOWN(DETAIL, NONE) },
    { "torch", "compile", DANGEROUS(NOTHING) },
    { "torch", "complex128", KNOWN(DTYPE, C128) },
    { "torch", "complex32", KNOWN(DTYPE, C32) },
    { "torch", "complex64", KNOWN(DTYPE, C64) },
    { "torch", "contiguous_format", KNOWN(DETAIL, NONE) },
    { "torch", "device", KNOWN(DETAIL, NONE) },
    { "torch", "float16", KNOWN(DTYPE, F16) },
    { "torch", "float32", KNOWN(DTYPE, F32) },
    { "torch", "float4_e2m1fn_x2", KNOWN(DTYPE, F4_X2) },
    { "torch", "float64", KNOWN(DTYPE, F64) },
    { "torch", "float8_e4m3fn", KNOWN(DTYPE, F8_E4M3FN) },
    { "torch", "float8_e4m3fnuz", KNOWN(DTYPE, F8_E4M3FNUZ) },
    { "torch", "float8_e5m2", KNOWN(DTYPE, F8_E5M2) },
    { "torch", "float8_e5m2fnuz", KNOWN(DTYPE, F8_E5M2FNUZ) },
    { "torch", "float8_e8m0fnu", KNOWN(DTYPE, F8_E8M0FNU) },
    { "torch", "int16", KNOWN(DTYPE, I16) },
    { "torch", "int32", KNOWN(DTYPE, I32) },
    { "torch", "int64", KNOWN(DTYPE, I64) },
    { "torch", "int8", KNOWN(DTYPE, I8) },
    { "torch", "load", DANGEROUS(NOTHING) },
    { "torch", "per_channel_affine", KNOWN(DETAIL, NONE) },
    { "torch", "per_channel_affine_float_qparams", KNOWN(DETAIL, NONE) },
    { "torch", "per_channel_symmetric", KNOWN(DETAIL, NONE) },
    { "torch", "per_tensor_affine", KNOWN(DETAIL, NONE) },
    { "torch", "per_tensor_symmetric", KNOWN(DETAIL, NONE) },
    { "torch", "preserve_format", KNOWN(DETAIL, NONE) },
    { "torch", "qint32", KNOWN(DTYPE, Q32) },
    { "torch", "qint8", KNOWN(DTYPE, Q8) },
    { "torch", "quint2x4", KNOWN(DTYPE, Q8) },
    { "torch", "quint4x2", KNOWN(DTYPE, Q8) },
    { "torch", "quint8", KNOWN(DTYPE, Q8) },
    { "torch", "save", DANGEROUS(NOTHING) },
    { "torch", "sparse_bsc", KNOWN(DETAIL, NONE) },
    { "torch", "sparse_bsr", KNOWN(DETAIL, NONE) },
    { "torch", "sparse_coo", KNOWN(DETAIL, NONE) },
    { "torch", "sparse_csc", KNOWN(DETAIL, NONE) },
    { "torch", "sparse_csr", KNOWN(DETAIL, NONE) },
    { "torch", "strided", KNOWN(DETAIL, NONE) },
    { "torch", "uint16", KNOWN(DTYPE, U16) },
    { "torch", "uint32", KNOWN(DTYPE, U32) },
    { "torch", "uint64", KNOWN(DTYPE, U64) },
    { "torch", "uint8", KNOWN(DTYPE, U8) },
    /*
     * _rebuild_from_type calls a function that it is given. The function is an import of its own, and is told
     * where it is none of the rows below.
     */
    { "torch._tensor", "Tensor", KNOWN(TENSOR_TYPE, NONE) },
    { "torch._tensor", "_rebuild_from_type", KNOWN(FROM_TYPE, NONE) },
    { "torch._tensor", "_rebuild_from_type_v2", KNOWN(FROM_TYPE, NONE) },
    { "torch._utils", "_import_dotted_name", DANGEROUS(NOTHING) },
    /*
     * The functions that rebuild tensors (torch/_utils.py), by what their arguments say: a view of a storage,
     * another tensor that is wrapped, or a tensor of a kind that safetensors cannot express.
     */
    { "torch._utils", "_rebuild_device_tensor_from_cpu_tensor", KNOWN(WRAP, NONE) },
    { "torch._utils", "_rebuild_device_tensor_from_numpy", KNOWN(WRAP, NONE) },
    { "torch._utils", "_rebuild_meta_tensor_no_storage", LACKING },
    { "torch._utils", "_rebuild_nested_tensor", LACKING },
    { "torch._utils", "_rebuild_parameter", KNOWN(WRAP, NONE) },
    { "torch._utils", "_rebuild_parameter_with_state", KNOWN(WRAP, NONE) },
    { "torch._utils", "_rebuild_qtensor", LACKING },
    { "torch._utils", "_rebuild_sparse_csr_tensor", LACKING },
    { "torch._utils", "_rebuild_sparse_tensor", LACKING },
    { "torch._utils", "_rebuild_tensor", KNOWN(REBUILD_1, NONE) },
    { "torch._utils", "_rebuild_tensor_v2", KNOWN(REBUILD_2, NONE) },
    { "torch._utils", "_rebuild_tensor_v3", KNOWN(REBUILD_3, NONE) },
    { "torch._utils", "_rebuild_wrapper_subclass", LACKING },
    { "torch._utils", "_rebuild_xla_tensor", KNOWN(WRAP, NONE) },
    /* Storages were saved as what they were on the device. Their bytes are the same. */
    { "torch.cuda", "BFloat16Storage", KNOWN(STORAGE, BF16) },
    { "torch.cuda", "BoolStorage", KNOWN(STORAGE, BOOL) },
    { "torch.cuda", "ByteStorage", KNOWN(STORAGE, U8) },
    { "torch.cuda", "ByteTensor", KNOWN(DETAIL, NONE) },
    { "torch.cuda", "CharStorage", KNOWN(STORAGE, I8) },
    { "torch.cuda", "CharTensor", KNOWN(DETAIL, NONE) },
    { "torch.cuda", "ComplexDoubleStorage", KNOWN(STORAGE, C128) },
    { "torch.cuda", "ComplexFloatStorage", KNOWN(STORAGE, C64) },
    { "torch.cuda", "DoubleStorage", KNOWN(STORAGE, F64) },
    { "torch.cuda", "DoubleTensor", KNOWN(DETAIL, NONE) },
    { "torch.cuda", "FloatStorage", KNOWN(STORAGE, F32) },
    { "torch.cuda", "FloatTensor", KNOWN(DETAIL, NONE) },
    { "torch.cuda", "HalfStorage", KNOWN(STORAGE, F16) },
    { "torch.cuda", "HalfTensor", KNOWN(DETAIL, NONE) },
    { "torch.cuda", "IntStorage", KNOWN(STORAGE, I32) },
    { "torch.cuda", "IntTensor", KNOWN(DETAIL, NONE) },
    { "torch.cuda", "LongStorage", KNOWN(STORAGE, I64) },
    { "torch.cuda", "LongTensor", KNOWN(DETAIL, NONE) },
    { "torch.cuda", "QInt32Storage", KNOWN(STORAGE, Q32) },
    { "torch.cuda", "QInt8Storage", KNOWN(STORAGE, Q8) },
    { "torch.cuda", "QUInt2x4Storage", KNOWN(STORAGE, Q8) },
    { "torch.cuda", "QUInt4x2Storage", KNOWN(STORAGE, Q8) },
    { "torch.cuda", "QUInt8Storage", KNOWN(STORAGE, Q8) },
    { "torch.cuda", "ShortStorage", KNOWN(STORAGE, I16) },
    { "torch.cuda", "ShortTensor", KNOWN(DETAIL, NONE) },
    { "torch.cuda", "UntypedStorage", KNOWN(STORAGE, U8) },
    /*
     * TorchScript writes typed lists as calls of these with a list, and any other container with the name of its
     * type.
     */
    { "torch.distributed._shard.metadata", "ShardMetadata", HARMLESS },
    { "torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING", HARMLESS },
    { "torch.distributed._shard.sharded_tensor.metadata", "TensorProperties", HARMLESS },
    { "torch.distributed.checkpoint.filesystem", "_StorageInfo", KNOWN(DETAIL, NONE) },
    { "torch.distributed.checkpoint.filesystem", "_StoragePrefix", KNOWN(DETAIL, NONE) },
    { "torch.distributed.checkpoint.metadata", "BytesStorageMetadata", KNOWN(DETAIL, NONE) },
    { "torch.distributed.checkpoint.metadata", "ChunkStorageMetadata", KNOWN(DETAIL, NONE) },
    { "torch.distributed.checkpoint.metadata", "Metadata", KNOWN(DETAIL, NONE) },
    { "torch.distributed.checkpoint.metadata", "MetadataIndex", KNOWN(DETAIL, NONE) },
    { "torch.distributed.checkpoint.metadata", "StorageMeta", KNOWN(DETAIL, NONE) },
    { "torch.distributed.checkpoint.metadata", "TensorProperties", KNOWN(DETAIL, NONE) },
    { "torch.distributed.checkpoint.metadata", "TensorStorageMetadata", KNOWN(DETAIL, NONE) },
    { "torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING", KNOWN(DETAIL, NONE) },
    { "torch.distributed.device_mesh", "DeviceMesh", HARMLESS },
    { "torch.distributed.device_mesh", "_MeshLayout", HARMLESS },
    { "torch.distributed.tensor", "DTensor", HARMLESS },
    { "torch.distributed.tensor._dtensor_spec", "DTensorSpec", HARMLESS },
    { "torch.distributed.tensor._dtensor_spec", "ShardOrderEntry", HARMLESS },
    { "torch.distributed.tensor._dtensor_spec", "TensorMeta", HARMLESS },
    { "torch.distributed.tensor.placement_types", "Partial", HARMLESS },
    { "torch.distributed.tensor.placement_types", "Replicate", HARMLESS },
    { "torch.distributed.tensor.placement_types", "Shard", HARMLESS },
    { "torch.distributed.tensor.placement_types", "_StridedShard", HARMLESS },
    { "torch.fx.immutable_collections", "immutable_dict", HARMLESS },
    { "torch.fx.immutable_collections", "immutable_list", HARMLESS },
    { "torch.jit._pickle", "build_boollist", KNOWN(SEQUENCE, NONE) },
    { "torch.jit._pickle", "build_doublelist", KNOWN(SEQUENCE, NONE) },
    { "torch.jit._pickle", "build_intlist", KNOWN(SEQUENCE, NONE) },
    { "torch.jit._pickle", "build_stringlist", KNOWN(SEQUENCE, NONE) },
    { "torch.jit._pickle", "build_tensorlist", KNOWN(SEQUENCE, NONE) },
    { "torch.jit._pickle", "restore_type_tag", KNOWN(TAG, NONE) },
    { "torch.nested._internal.nested_tensor", "_rebuild_njt", LACKING },
    { "torch.nn", "Buffer", KNOWN(TENSOR_TYPE, NONE) },
    { "torch.nn", "Parameter", KNOWN(TENSOR_TYPE, NONE) },
    { "torch.nn.parameter", "Buffer", KNOWN(TENSOR_TYPE, NONE) },
    { "torch.nn.parameter", "Parameter", KNOWN(TENSOR_TYPE, NONE) },
    { "torch.nn.parameter", "UninitializedBuffer", LACKING },
    { "torch.nn.parameter", "UninitializedParameter", LACKING },
    { "torch.serialization", "_get_layout", KNOWN(DETAIL, NONE) },
    { "torch.serialization", "load", DANGEROUS(NOTHING) },
    /* _load_from_bytes is torch.load of bytes within the pickle, without the restriction to weights. */
    { "torch.storage", "TypedStorage", KNOWN(STORAGE, U8) },
    { "torch.storage", "UntypedStorage", KNOWN(STORAGE, U8) },
    { "torch.storage", "_TypedStorage", KNOWN(STORAGE, U8) },
    { "torch.storage", "_UntypedStorage", KNOWN(STORAGE, U8) },
    { "torch.storage", "_load_from_bytes", DANGEROUS(LOAD) },
    { "types", "SimpleNamespace", HARMLESS },
    { "uuid", "SafeUUID", HARMLESS },
    { "uuid", "UUID", HARMLESS },
};
/* clang-format on */

/* Classes of these modules keep data. Functions of them, whose names begin with a small letter, are not known. */
static const char *const harmless_modules[] = { "torch.nn.modules.", "torch.nn.parallel.", "torch.nn.utils.",
                                                "torch.optim.", "torch.utils.data.dataset" };

/* Attributes of attributes: what such a name reaches need not be what its module suggests. */
static bool names_is_dotted(const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name == '.') {
            return true;
        }
    }
    return false;
}

/* A class by its capital letter, before which may stand an underscore. Dotted names are none: through a class its methods and its module can be reached. */
static bool names_is_data_class(const char *module, const char *name)
{
    const char first = name[0] == '_' ? name[1] : name[0];
    if (first < 'A' || first > 'Z' || names_is_dotted(name)) {
        return false;
    }
    const size_t len = coffer__text_len(module);
    for (size_t i = 0; i < sizeof harmless_modules / sizeof *harmless_modules; i++) {
        const size_t prefix_len = coffer__text_len(harmless_modules[i]);
        if (len >= prefix_len && memcmp(module, harmless_modules[i], prefix_len) == 0) {
            return true;
        }
    }
    return false;
}

/* The order of the table: two texts, not one that is joined by a dot. `wanted` is a row of which the names count. */
static int names_compare_row(const void *rows, size_t i, const void *wanted)
{
    const known_row *row = (const known_row *)rows + i;
    const known_row *other = wanted;
    const int modules = coffer__compare_names(row->module, coffer__text_len(row->module), other->module,
                                              coffer__text_len(other->module));
    if (modules != 0) {
        return modules;
    }
    return coffer__compare_names(row->name, coffer__text_len(row->name), other->name, coffer__text_len(other->name));
}

static const known_row *names_look_up(const char *module, const char *name)
{
    const known_row wanted = { .module = module, .name = name };
    size_t at = 0;
    return coffer__find_sorted(sizeof known_rows / sizeof *known_rows, names_compare_row, known_rows, &wanted, &at)
               ? &known_rows[at]
               : NULL;
}

coffer__known coffer__known_global(const char *module, const char *name)
{
    const known_row *row = names_look_up(module, name);
    if (row != NULL) {
        return row->known;
    }
    if (coffer__reaches_danger(module, name)) {
        return (coffer__known)DANGEROUS(NOTHING);
    }
    /* Only after what is dangerous: a capital letter proves nothing about a class of a module that runs code. */
    if (names_is_data_class(module, name)) {
        return (coffer__known)HARMLESS;
    }
    return (coffer__known){ COFFER__GLOBAL_UNKNOWN, COFFER__MEANS_NOTHING, COFFER__ELEMENT_NONE };
}

const char *coffer__known_storage(coffer__element element)
{
    for (size_t i = 0; i < sizeof known_rows / sizeof known_rows[0]; i++) {
        const known_row *row = &known_rows[i];
        /* The first of that element: TypedStorage and its kin are bytes as well, but are of another module. */
        if (row->known.meaning == COFFER__MEANS_STORAGE && row->known.element == element &&
            coffer__same_text(row->module, "torch")) {
            return row->name;
        }
    }
    return NULL;
}
