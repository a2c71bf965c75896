/* The one name of this library that headers of XNNPACK mention. */
typedef struct pthreadpool *pthreadpool_t;
